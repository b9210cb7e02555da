package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// report is one report of the call `rm -rf a`, unless it has another command.
type report struct {
	by, event, id, command string // by one of the agents of TestFly
	after                  time.Duration
	judged                 bool // it is not taken for another report of a call
}

// Several reports are about one call only if the ids say so or, without ids, if different entries of
// one agent's hooks make them. Nothing else gets the verdict on another call.
func TestFly(t *testing.T) {
	const pre, shell = "preToolUse", "beforeShellExecution"
	denied := &submit.DeniedError{}
	for name, tt := range map[string]struct {
		err     error // of each verdict
		reports []report
	}{
		"no ids, one entry":                    {nil, []report{{by: "gemini", judged: true}, {by: "gemini", judged: true}}},
		"no ids, one entry, denied":            {denied, []report{{by: "gemini", judged: true}, {by: "gemini", judged: true}}},
		"one id, one entry":                    {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude", id: "1"}}},
		"two ids":                              {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude", id: "2", judged: true}}},
		"an id after none, one entry":          {nil, []report{{by: "claude", judged: true}, {by: "claude", id: "1", judged: true}}},
		"two events of one call":               {nil, []report{{by: "cursor", event: pre, id: "1", judged: true}, {by: "cursor", event: shell}}},
		"two events of two calls":              {nil, []report{{by: "cursor", event: pre, id: "1", judged: true}, {by: "cursor", event: shell}, {by: "cursor", event: pre, id: "2", judged: true}, {by: "cursor", event: shell}}},
		"two events of two calls at once":      {nil, []report{{by: "cursor", event: pre, id: "1", judged: true}, {by: "cursor", event: pre, id: "2", judged: true}, {by: "cursor", event: shell}, {by: "cursor", event: shell}}},
		"one event more than the calls":        {nil, []report{{by: "cursor", event: pre, id: "1", judged: true}, {by: "cursor", event: shell}, {by: "cursor", event: shell, judged: true}}},
		"the second id is not the first":       {nil, []report{{by: "cursor", event: shell, judged: true}, {by: "cursor", event: pre, id: "1"}, {by: "cursor", event: pre, id: "2", judged: true}}},
		"an entry of another agent's":          {nil, []report{{by: "cursor", event: pre, id: "1", judged: true}, {by: "claude by cursor", id: "1"}}},
		"without a session":                    {nil, []report{{by: "cursor", event: pre, id: "1", judged: true}, {by: "cursor alone", event: pre, id: "1", judged: true}, {by: "claude by cursor alone", id: "1", judged: true}}},
		"another session":                      {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude elsewhere", id: "1", judged: true}}},
		"another process":                      {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude's child", id: "1", judged: true}}},
		"an agent that does not read the file": {nil, []report{{by: "claude", judged: true}, {by: "gemini", judged: true}}},
		"another command":                      {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude", id: "1", command: "rm -rf b", judged: true}}},
		"within five seconds":                  {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude", id: "1", after: 4 * time.Second}}},
		"later":                                {nil, []report{{by: "claude", id: "1", judged: true}, {by: "claude", id: "1", after: 6 * time.Second, judged: true}}},
		"after an accident":                    {gate.ErrFull, []report{{by: "claude", id: "1", judged: true}, {by: "claude", id: "1", judged: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Options{})
				defer r.Close()
				agents := map[string]*agent{}
				for by, at := range map[string]struct {
					pid              int32
					session, dialect string
				}{
					"claude": {1, "s", "claude-code"}, "claude elsewhere": {1, "other", "claude-code"}, "claude's child": {2, "s", "claude-code"},
					"claude by cursor": {1, "s", "claude-code"}, "claude by cursor alone": {1, "", "claude-code"},
					"cursor": {1, "s", "cursor"}, "cursor alone": {1, "", "cursor"}, "gemini": {1, "s", "gemini"},
				} {
					a := &agent{registry: r, contract: agenthook.Of(at.dialect), process: proc.Process{PID: at.pid}, life: r.ctx}
					a.joined = &session.Joined{}
					a.joined.Shim.Session, a.joined.Shim.Attachment = at.session, by
					agents[by] = a
				}
				for i, report := range tt.reports {
					a := agents[report.by]
					e := &agenthook.Event{Name: report.event, ID: report.id, Writer: a.contract.Agent}
					if strings.Contains(report.by, "by cursor") {
						e.Writer = "cursor"
					}
					time.Sleep(report.after)
					f, first, err := a.fly(e, &agenthook.Call{Tool: agenthook.Shell, Arguments: []byte("rm -rf a" + report.command)})
					if err != nil || first != report.judged {
						t.Fatalf("report %d: judged: %v, %v", i+1, first, err)
					}
					if first {
						f.err = tt.err
						close(f.done)
					}
					synctest.Wait()
				}
			})
		})
	}
}

// Calls that wait for their verdicts are bounded, and those that have one take no place.
func TestFlightsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		a := &agent{registry: r, contract: agenthook.Of("gemini"), joined: &session.Joined{}}
		a.life, a.end = context.WithCancelCause(r.ctx)
		fly := func(i int) (*flight, error) {
			f, _, err := a.fly(&agenthook.Event{}, &agenthook.Call{Arguments: fmt.Append(nil, i)})
			return f, err
		}
		var flights []*flight
		for i := range maxFlights {
			f, err := fly(i)
			if err != nil {
				t.Fatal(err)
			}
			flights = append(flights, f)
		}
		if _, err := fly(maxFlights); !errors.Is(err, gate.ErrFull) {
			t.Errorf("one more: %v", err)
		}
		close(flights[0].done)
		synctest.Wait()
		if _, err := fly(maxFlights); err != nil {
			t.Errorf("after a verdict: %v", err)
		}
		a.end(errLeft)
		r.Close()
		if len(r.flights.all)+len(r.flights.judging) > 0 {
			t.Errorf("left: %+v", &r.flights)
		}
	})
}
