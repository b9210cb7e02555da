package kills

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// recorded is what is on record of a request.
type recorded struct{ forwards, holds, outcomes, others int }

// A session is on record as lost whose end the next daemon has not seen: its descriptors
// were not kept yet, or no more, or its shim had left. All was delivered then, which the
// agents say. It must not be lost for what was found in its memory.
var harm = regexp.MustCompile(`corrupt|internal error`)

// compare holds what is on record against what the agents have asked for and were
// answered, after so many kills.
func (h *fixture) compare(kills int) {
	type call struct {
		attachment string
		seq        uint64
	}
	ids, found, refused := map[call]string{}, map[string]*recorded{}, map[string]int{}
	lost := map[string]string{} // why a server's session was, if it was
	of := func(id string) *recorded {
		if found[id] == nil {
			found[id] = &recorded{}
		}
		return found[id]
	}
	report, err := record.Verify([]string{h.Path("state/thoughtgate/audit")}, record.VerifyOptions{Each: func(_ uint64, e record.Entry) error {
		r, err := record.Parse(e.Line)
		if err != nil {
			return err
		}
		of := func() *recorded { return of(ids[call{r.Attachment, r.Call}]) }
		switch {
		case r.Kind == record.KindCall:
			ids[call{r.Attachment, r.Call}] = r.Server + " " + r.MessageID
			switch r.Verdict {
			case "forward":
				of().forwards++
			case "hold":
				of().holds++
			default:
				of().others++
			}
		case r.Kind == record.KindOutcome && (r.Verdict == "ok" || r.Verdict == "lost" || r.Verdict == "not_written"):
			of().outcomes++
		case r.Kind == record.KindOutcome, r.Kind == record.KindOrphan:
			of().others++
		case r.Kind == record.KindRefused && strings.Contains(r.Reason, "twice while it handled"):
			refused[r.Server]++
		case r.Kind == record.KindRefused, r.Kind == record.KindDenied:
			h.Errorf("on record: %s", e.Line)
		case r.Kind == record.KindDetach && harm.MatchString(r.Reason):
			h.Errorf("a session was ended: %s", e.Line)
		case r.Kind == record.KindDetach && r.Verdict == "lost":
			lost[r.Server] = r.Reason
		}
		return nil
	}})
	if err != nil || report.Bad != nil || report.Torn > 0 {
		h.Errorf("verify the record: %v, bad %v, %d bytes torn", err, report.Bad, report.Torn)
	}
	calls, twice, late := 0, h.lost, 0
	for _, a := range h.agents {
		ended := 0
		for _, why := range a.refused {
			if why == overdue {
				late++
			} else {
				ended++
			}
		}
		twice += ended
		for id, q := range a.sent {
			calls++
			name := a.name + " " + strconv.Itoa(id)
			got := *of(name)
			delete(found, name)
			want := recorded{forwards: 1, outcomes: 1}
			if q.held { // a person may have answered before the next daemon came to it
				want.holds = min(got.holds, 1)
			}
			switch {
			case !q.judged:
				want = recorded{}
			case a.refused[id] == overdue:
				want = recorded{others: 1}
			case a.refused[id] == callRefused: // it may have been judged by one of the daemons that it ended
				want.forwards, want.outcomes, want.holds = min(got.forwards, want.forwards), min(got.forwards, want.forwards), min(got.holds, want.holds)
			}
			if got != want {
				h.Errorf("of request %s is on record %+v, want %+v %s; its session: %s", name, got, want, a.refused[id], lost[a.name])
			}
		}
		if ended > refused[a.name] {
			h.Errorf("%s: %d lines were refused, and %d are on record", a.name, ended, refused[a.name])
		}
	}
	for name, r := range found {
		if *r != (recorded{}) {
			h.Errorf("of %q is on record %+v, and no agent has asked for it", name, *r)
		}
	}
	if twice > kills/4+2*sessions {
		h.Errorf("%d lines were refused for having ended two daemons each, of %d", twice, kills)
	}
	if late > calls/500+1 {
		h.Errorf("%d calls of %d were not judged in time", late, calls)
	}
	h.Logf("%d requests in %d sessions, of which %d were refused for having ended two daemons, and %d as the machine was slow", calls, len(h.agents), twice, late)
}
