package soak

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// trouble is one thing that is done to the fixture at a part of the run.
type trouble struct {
	at   float64 // 0 at the beginning, 1 at the end
	what string
	do   func() error
}

// troubles are all of a run, in order. Each chapter begins with blows in its first
// fifth. Reloads and reads of the log go on all the time.
func (w *world) troubles() []trouble {
	var all []trouble
	r := rand.New(rand.NewPCG(w.plan.seed, 0))
	for chapter := range w.plan.chapters {
		part := 1 / float64(w.plan.chapters)
		begin := (float64(chapter) + .1) * part
		for i := range w.plan.blows {
			do := w.restart
			if (i+chapter)%2 == 1 {
				do = w.kill
			}
			all = append(all, trouble{begin + part*.15*float64(i)/float64(w.plan.blows), "replace the daemon", do})
		}
		all = append(all, trouble{begin + .2*part, "crash the shared server", w.agents[len(w.agents)-1].crash})
		all = append(all, trouble{begin + .4*part, "heap", func() error { return w.heap(fmt.Sprintf("heap-%d-early", chapter)) }})
		all = append(all, trouble{begin + .88*part, "heap", func() error { return w.heap(fmt.Sprintf("heap-%d-late", chapter)) }})
	}
	for i := range w.plan.reloads {
		at, do := (float64(i)+r.Float64())/float64(w.plan.reloads), func() error { return w.reload(i) }
		if i%4 == 3 {
			do = w.badReload
		}
		all = append(all, trouble{at, "reload", do}, trouble{at, "read the log", func() error { return w.there(w.readLog) }})
	}
	slices.SortStableFunc(all, func(a, b trouble) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	return all
}

// progress is how far the run has come: by time or by messages, whichever is further.
func (w *world) progress() float64 {
	p := float64(time.Since(w.begun)) / float64(w.plan.length)
	if w.plan.messages > 0 {
		p = float64(w.sent.Load()) / float64(w.plan.messages)
	}
	return p
}

// run makes all troubles, and returns when the run is over.
func (w *world) run() {
	shown := 0
	for _, t := range append(w.troubles(), trouble{1, "the end", func() error { return nil }}) {
		for w.progress() < t.at && !w.stopped() {
			w.rest(moment)
			if minutes := int(time.Since(w.begun).Minutes()); minutes > shown {
				shown = minutes
				fmt.Printf("%3d min: %d messages, %d daemons, %d visits\n", minutes, w.sent.Load(), w.blows.Load()+1, w.counted("visits"))
			}
		}
		if w.stopped() {
			return
		}
		if err := t.do(); err != nil {
			w.Errorf("%s: %v", t.what, err)
		}
	}
}

func (w *world) counted(what string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tally[what]
}

// restart ends the daemon as a service manager would, and starts the next.
func (w *world) restart() error {
	w.replace(w.fixture.StopDaemon)
	w.count("daemons ended", 1)
	return nil
}

// kill kills it instead.
func (w *world) kill() error {
	w.replace(w.fixture.KillDaemon)
	w.count("daemons killed", 1)
	return nil
}

func (w *world) replace(end func()) {
	w.daemon.Lock()
	defer w.daemon.Unlock()
	w.blows.Add(1)
	end()
	w.fixture.StartDaemon()
	w.life++
}

// reload puts other rules in force, by the signal or by a call.
func (w *world) reload(n int) error {
	w.configure(n)
	w.count("reloads", 1)
	if n%2 == 0 {
		return w.there(w.reloadNow)
	}
	before, err := w.set()
	if err != nil {
		return err
	}
	w.fixture.Daemon.Signal(syscall.SIGHUP)
	return w.eventually("other rules are in force", func() error {
		now, err := w.set()
		if err == nil && now == before {
			err = errors.New("the old set is")
		}
		return err
	})
}

func (w *world) reloadNow() error {
	_, err := w.client.Reload(w.Context())
	return err
}

// badReload offers rules that can't be read, which stay out of force.
func (w *world) badReload() error {
	before, err := w.set()
	if err != nil {
		return err
	}
	w.fixture.Configure("schema: 1\ngovernance: {rules: [{match: denied, action: perhaps}]}\n")
	if err := w.there(w.reloadNow); !errors.Is(err, client.ErrInvalid) {
		return fmt.Errorf("broken rules: got %v, want %v", err, client.ErrInvalid)
	}
	w.count("reloads refused", 1)
	now, err := w.set()
	if err == nil && now != before {
		err = errors.New("another set is in force")
	}
	w.configure(1000 + int(w.counted("reloads refused")))
	return err
}

// set is the digest of the rules in force.
func (w *world) set() (digest string, err error) {
	err = w.there(func() error {
		s, err := w.client.PolicySet(w.Context())
		digest = fmt.Sprintf("%x", s.GetDigest())
		return err
	})
	return digest, err
}

// readLog reads the last denied calls, as people do while the log is written.
func (w *world) readLog() error {
	var last uint64
	for r, err := range w.client.ReadAudit(w.Context(), &pb.AuditQuery{Tool: toolDenied, Last: 50}) {
		if err != nil {
			return err
		}
		if r.GetSeq() <= last {
			return fmt.Errorf("record %d comes behind %d", r.GetSeq(), last)
		}
		last = r.GetSeq()
		w.count("records read meanwhile", 1)
	}
	return nil
}
