package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Holders that have filled their share are refused; when little is left, so is everyone
// who does not hold little.
func TestWhoIsRefusedWhen(t *testing.T) {
	const most = 1 << 20
	who := holder{"server", "s"}
	for _, test := range []struct {
		name    string
		strict  bool
		n, all  int64
		bare    bool
		refused string
	}{
		{"little of an empty log", true, 1, 1, false, ""},
		{"less than half of a share", true, most/8 - 1, most / 8, false, ""},
		{"half of a share", true, most / 8, most / 8, true, ""},
		{"less than a share", true, most/4 - 1, most / 4, true, ""},
		{"a share", true, most / 4, most / 4, true, "has filled its share"},
		{"little when little is left", true, most/32 - 1, most * 3 / 4, false, ""},
		{"not little when little is left", true, most / 32, most * 3 / 4, true, "is reserved for those that use little"},
		{"not little when there is more", true, most / 32, most*3/4 - 1, false, ""},
		{"a share of a log that drops what is old", false, most, most, false, ""},
	} {
		l := newLog(t.TempDir(), Options{MaxSize: most, Strict: test.strict})
		l.ledger.young.all = test.all
		bare, refused := l.standing(who, test.n)
		if bare != test.bare || (refused != "") != (test.refused != "") || !strings.Contains(refused, test.refused) {
			t.Errorf("%s: without values %v, refused %q", test.name, bare, refused)
		}
	}
}

// Holders beyond mostKeys share one share.
func TestThoseWhoAreTooManyHaveOneShare(t *testing.T) {
	var h holding
	h.add(holder{"session", "s"}, 1)
	for i := range mostKeys + 9 {
		h.add(holder{"server", fmt.Sprint(i)}, 3)
	}
	h.add(holder{"server", "0"}, 1)
	if len(h.by) > mostKeys+1 || h.by[others] != 30 || h.by[holder{"server", "0"}] != 4 {
		t.Errorf("%d are told apart, the others hold %d", len(h.by), h.by[others])
	}

	l := newLog(t.TempDir(), Options{MaxSize: 1 << 20, Strict: true})
	l.ledger.young = h
	call := func(server string) error {
		_, err := l.mayKeep(&record.Record{Kind: record.KindCall, Attachment: "a", Session: "s", Server: server})
		return err
	}
	if err := call("new"); err != nil {
		t.Errorf("with little of the share: %v", err)
	}
	l.ledger.young.add(holder{"server", "flood"}, 1<<18)
	if err := call("new"); err == nil || !strings.Contains(err.Error(), "too many to count separately") {
		t.Errorf("with all of the share: %v", err)
	}
	if err := call("0"); err != nil {
		t.Errorf("one who is told apart: %v", err)
	}
}

// The holders that a record counts for, and the kinds that count.
func TestWhoseShareARecordCountsFor(t *testing.T) {
	for _, test := range []struct {
		r    record.Record
		want [2]holder
	}{
		{record.Record{Server: "x", Session: "s", Agent: "a"}, [2]holder{{"server", "x"}, {"session", "s"}}},
		{record.Record{Server: "x", Agent: "a"}, [2]holder{{"server", "x"}, {"agent", "a"}}},
		{record.Record{Server: "x"}, [2]holder{{"server", "x"}, {"agents without a session", ""}}},
		{record.Record{Session: "s"}, [2]holder{1: {"session", "s"}}},
		{record.Record{}, [2]holder{}},
	} {
		if got := holders(&test.r); got != test.want {
			t.Errorf("%+v counts for %v", test.r, got)
		}
	}
	for kind, want := range map[record.Kind]bool{
		record.KindCall: true, record.KindHook: true, record.KindMessage: true, record.KindRefused: true, record.KindMemory: true, record.KindOrphan: true, record.KindAttach: true,
		record.KindOutcome: false, record.KindDetach: false, record.KindDecision: false, record.KindSession: false,
	} {
		if sharing(&record.Record{Kind: kind, Attachment: "a"}) != want || sharing(&record.Record{Kind: kind}) {
			t.Errorf("%s: refused to whose share is filled: want %v", kind, want)
		}
	}
}

// Dropped records count for nobody, and a holder with none left is logged again.
func TestSharesOfWhatWasDropped(t *testing.T) {
	l := newLog(t.TempDir(), Options{MaxSize: 1 << 20, Strict: true})
	old, young := holder{"server", "old"}, holder{"server", "young"}
	l.countBytes(1, 10, old)
	l.countBytes(2, 20, young)
	l.logShareState(old, "refused")
	l.logShareState(young, "refused")
	l.pruneLedger(time.Now(), 2)
	if by := l.ledger.young.by; by[old] != 0 || by[young] != 20 || l.ledger.young.all != 20 {
		t.Errorf("held: %v of %d", by, l.ledger.young.all)
	}
	if l.ledger.told[old] != "" || l.ledger.told[young] == "" {
		t.Errorf("told of: %v", l.ledger.told)
	}
}
