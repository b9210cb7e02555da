package hook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// An agent may report one call to several hooks: Cursor has two events for a command, and runs the
// entries of Claude Code too. The first report is judged, and the others get the same verdict. The
// agent's id of a call says which reports belong together. Without one, a second report by the
// same entry is about another call, since an entry is run once for each.

const (
	// maxFlights is the maximum number of calls of an agent that are judged at the same time.
	maxFlights = 64
	// flightLasts is how long a verdict is kept for another hook that reports the same call.
	flightLasts = 5 * time.Second
)

// flight is a call that is being judged, or was a moment ago.
type flight struct {
	id   string  // the agent's id of the call; empty if no report had one
	told []entry // that have reported it

	done      chan struct{} // closed when the fields below are set
	permitted *submit.Permitted
	err       error
}

// entry is an entry of a hook in a configuration.
type entry struct {
	agent *agent
	event string
}

// flightKey is what all reports of one call have in common.
type flightKey struct {
	process proc.Process
	writer  string   // the agent that runs the hooks
	session string   // of the attachment, or the attachment if it has none
	call    [32]byte // digest of the canonical call
}

// flights are the calls of all agents. It is safe for concurrent use.
type flights struct {
	mu      sync.Mutex // guards the fields below
	all     map[flightKey][]*flight
	judging map[*agent]int // flights without a verdict
}

// fly returns the flight of a call that a reports in e. The second result says that the caller has
// to judge it.
func (a *agent) fly(e *agenthook.Event, call *agenthook.Call) (*flight, bool, error) {
	shim := &a.joined.Shim
	key := flightKey{a.process, e.Writer, cmp.Or(shim.Session, shim.Attachment), sha256.Sum256(append([]byte(call.Tool+"\x00"), call.Arguments...))}
	by, in := entry{a, e.Name}, &a.registry.flights
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range in.all[key] {
		if f.isAbout(e.ID, by) {
			if f.id = cmp.Or(f.id, e.ID); !slices.Contains(f.told, by) {
				f.told = append(f.told, by)
			}
			return f, false, nil
		}
	}
	if in.judging[a] >= maxFlights {
		return nil, false, fmt.Errorf("%d calls of the agent are being judged, the maximum: %w", in.judging[a], gate.ErrFull)
	}
	f := &flight{id: e.ID, told: []entry{by}, done: make(chan struct{})}
	in.judging[a]++
	in.all[key] = append(in.all[key], f)
	a.registry.wait.Go(func() { in.land(a, key, f) })
	return f, true, nil
}

// isAbout reports whether a report with an id, which may be empty, is about the same call as f.
func (f *flight) isAbout(id string, by entry) bool {
	if f.id != "" && id != "" {
		return f.id == id
	}
	return !slices.Contains(f.told, by)
}

// land removes a flight: a while after its verdict, or at once if there is none.
func (in *flights) land(a *agent, key flightKey, f *flight) {
	select {
	case <-f.done:
	case <-a.life.Done():
	}
	in.mu.Lock()
	if in.judging[a]--; in.judging[a] == 0 {
		delete(in.judging, a)
	}
	in.mu.Unlock()
	select {
	case <-f.done:
		if _, denied := errors.AsType[*submit.DeniedError](f.err); f.err != nil && !denied {
			break
		}
		late := time.NewTimer(flightLasts)
		defer late.Stop()
		select {
		case <-late.C:
		case <-a.life.Done():
		}
	default:
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.all[key] = slices.DeleteFunc(in.all[key], func(other *flight) bool { return other == f }); len(in.all[key]) == 0 {
		delete(in.all, key)
	}
}

// verdict returns the verdict on a call that a reports, which another hook may have asked for. The
// agent waits for it as long as patience.
func (a *agent) verdict(ctx context.Context, e *agenthook.Event, call *agenthook.Call, patience time.Duration) (*submit.Permitted, error) {
	f, first, err := a.fly(e, call)
	if err != nil {
		return nil, err
	}
	if first {
		f.permitted, f.err = a.judge(ctx, e, call, patience)
		close(f.done)
		return f.permitted, f.err
	}
	select {
	case <-f.done:
		return f.permitted, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
