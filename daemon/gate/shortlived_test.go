package gate

import (
	"context"
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A modern client caches a list. A filtered list is private, and is kept only for a short
// time; an unfiltered one is as the server sent it.
func TestTrimmedListsAreShortLived(t *testing.T) {
	const both, one = `"tools":[{"name":"a"},{"name":"b"}]`, `"tools":[{"name":"a"}]`
	for _, tt := range []struct {
		given, want string // beside the list
		modern      bool
	}{
		{``, `"cacheScope":"private","ttlMs":60000,`, true},
		{`"ttlMs":3600000,"cacheScope":"public",`, `"ttlMs":60000,"cacheScope":"private",`, true},
		{`"ttlMs":5,`, `"cacheScope":"private","ttlMs":5,`, true},
		{`"ttlMs":"long",`, `"cacheScope":"private","ttlMs":60000,`, true},
		{`"ttlMs":3600000,`, `"ttlMs":3600000,`, false},
	} {
		for _, hidden := range []bool{true, false} {
			h := newFixture()
			h.hidden = map[string]bool{"b": hidden}
			a := h.gate.Attach(context.Background(), shimX, nil)
			c := collect(a)
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{%s%s}}`, tt.given, both)
			want := line
			if hidden {
				want = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{%s%s}}`, tt.want, one)
			}
			a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(line), Answers: "tools/list", Modern: tt.modern})
			if v := <-c; string(v.Line) != want {
				t.Errorf("got  %s\nwant %s", v.Line, want)
			}
			a.Close(true)
		}
	}
}
