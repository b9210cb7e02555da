package audit

import (
	"context"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// A record that names no profile gets that of the configuration, unless it belongs to a
// session, which may have a stricter one.
func TestRecordsGetTheProfile(t *testing.T) {
	l := open(t, t.TempDir(), Options{Profile: "development"})
	put := func(r record.Record) string {
		t.Helper()
		if err := l.Record(context.Background(), &r, nil, nil); err != nil {
			t.Fatal(err)
		}
		return r.Profile
	}
	if got := put(record.Record{Kind: record.KindExtension, Verdict: "failed"}); got != "development" {
		t.Errorf("an extension: %q", got)
	}
	if got := put(record.Record{Kind: record.KindPin, Verdict: "accepted", Profile: "production"}); got != "production" {
		t.Errorf("one that names it: %q", got)
	}
	if got := put(record.Record{Kind: record.KindGrant, Session: "s"}); got != "" {
		t.Errorf("one about a session: %q", got)
	}
	l.Apply(Options{Profile: "production"})
	if got := put(record.Record{Kind: record.KindDenied, Verdict: "deny"}); got != "production" {
		t.Errorf("after a reload: %q", got)
	}
}
