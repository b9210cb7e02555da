// Package soak runs the real programs under load for a long time, and shows what
// drifts.
//
// A fixture has one daemon whose sockets the test holds, agents with private servers,
// with a shared one and with one whose calls an extension sees, and others that come
// and go. They make calls that are forwarded, denied, held for a person and cancelled,
// with large arguments and results; servers crash, rules are reloaded, and the daemon
// is restarted and killed. Every answer is looked at: each request has one, it is the
// right one, and nothing reaches a server that must not. Meanwhile samples are taken of
// what every process holds, and in the end each series is judged (see judge).
//
//	make soak SOAK=15m SOAK_OUT=/tmp/soak
//
//gotest:race the programs have the race detector if the tests have it
package soak

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

var (
	length   = flag.Duration("for", 0, "how long TestSoak runs; it is skipped without this or -messages")
	messages = flag.Int64("messages", 0, "how many messages TestSoak sends instead")
	rate     = flag.Int("rate", 200, "messages a second, all agents together")
	out      = flag.String("out", "", "folder for the table, the samples and profiles of the daemon's heap")
	plants   = flag.String("plant", "", "leak descriptors or memory in the load's own process, to see that it is found")
	seed     = flag.Uint64("seed", 0, "of the random choices; 0: another one each time")
)

func TestMain(m *testing.M) {
	if code, played := fake.PlayExtension(os.Args[1:]); played {
		os.Exit(code)
	}
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case serverRole:
			if err := serve(os.Stdin, os.Stdout, os.Args[2]); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		case wrapRole:
			os.Exit(wrap(os.Args[2], os.Args[3:]))
		}
	}
	rig.MainRaced(m)
}

// TestShortSoak is the soak in seconds: every check but for drift.
func TestShortSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	soak(t, plan{
		length: 5 * time.Second, messages: 2000, rate: 500, hands: 2, every: time.Second, holds: 75,
		larges: 750, visits: moment, chapters: 1, blows: 2, reloads: 4,
	})
}

// TestSoak is the soak of make soak.
func TestSoak(t *testing.T) {
	p := plan{
		length: *length, messages: *messages, rate: *rate, hands: 3, every: 5 * time.Second, holds: 300,
		larges: 800, visits: 2 * time.Second, chapters: 4, blows: 4, judged: true, out: *out, plant: *plants,
	}
	if p.messages > 0 {
		p.length = time.Duration(p.messages) * time.Second / time.Duration(p.rate)
	}
	if p.length == 0 {
		t.Skip("make soak runs it")
	}
	p.reloads = max(4, int(p.length/(20*time.Second)))
	p.holds = max(p.holds, int64(p.length.Seconds())*int64(p.rate)/2400) // the questions that were answered stay on disk, 10,000 of them
	p.every = min(p.every, max(time.Second, p.length/400))
	if p.length < 30*time.Minute {
		p.chapters = 2 // long enough for the warm-up of a life to be over
	}
	soak(t, p)
}

func soak(t *testing.T, p plan) {
	if p.seed = *seed; p.seed == 0 {
		p.seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the same choices again: -args -seed=%d", p.seed)
	if p.out != "" {
		if err := os.MkdirAll(p.out, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, p)
	before, err := w.kept()
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	w.wait.Go(w.watchAll)
	w.run()
	w.end()
	if !t.Failed() {
		if err := w.settled(before); err != nil {
			t.Error(err)
		}
		w.finish()
	}
	if p.judged && time.Since(w.begun) > p.length/2 {
		w.judge()
	}
}

// finish has everybody leave, and looks at what is left.
func (w *world) finish() {
	for _, c := range append(slices.Clone(w.agents), w.meters[:]...) {
		if err := c.leave(); err != nil {
			w.Error(err)
		}
	}
	if err := w.eventually("no shim is attached, no session and no question open", func() error {
		processes, err := w.client.ListProcesses(w.Context())
		for _, p := range processes {
			if p.GetShimPid() != 0 {
				err = errors.Join(err, fmt.Errorf("attached: %v", p))
			}
		}
		open, oerr := w.client.ListApprovals(w.Context(), false)
		sessions, serr := w.client.ListSessions(w.Context())
		if len(open) > 0 || len(sessions) > 0 {
			err = errors.Join(err, fmt.Errorf("%d questions and %d sessions", len(open), len(sessions)))
		}
		return errors.Join(err, oerr, serr)
	}); err != nil {
		w.Error(err)
	}
	w.fixture.StopDaemon()
	w.verify()
	w.few()
	breaches, err := os.ReadFile(w.fixture.Path("breaches"))
	if !errors.Is(err, os.ErrNotExist) {
		w.Errorf("what must not happen: %v\n%.4000s", err, breaches)
	}
	if log := w.fixture.DaemonLog(); strings.Contains(log, "panic:") {
		w.Error(log)
	}
}

// verify looks at the log: it is whole, and has each call that was answered.
func (w *world) verify() {
	seen := map[string]int64{}
	report, err := record.Verify([]string{w.fixture.Path("state/thoughtgate/audit")}, record.VerifyOptions{Each: func(_ uint64, e record.Entry) error {
		r, err := record.Parse(e.Line)
		if err == nil && r.Kind == record.KindCall {
			seen[r.Tool+" "+r.Verdict]++
		}
		return err
	}})
	if err != nil || report.Bad != nil || report.Torn > 0 {
		w.Errorf("verify the log: %v, bad %v, %d bytes torn", err, report.Bad, report.Torn)
	}
	w.count("records", int64(report.Records))
	for call, names := range map[string][]string{
		toolEcho + " forward": {"calls answered", "large arguments", "large results"},
		toolDenied + " deny":  {"calls denied"},
		toolHeldYes + " hold": {"calls let through by a person"},
		toolHeldNo + " hold":  {"calls rejected by a person"},
	} {
		var want int64
		for _, name := range names {
			want += w.tally[name]
		}
		if seen[call] < want {
			w.Errorf("%d records of %q, and %d such calls were answered", seen[call], call, want)
		}
	}
}

// few checks that no more was lost or refused than what was done to the fixture explains:
// with a shared server what its callers had in flight, and of all calls one in a hundred
// on a machine that is busy.
func (w *world) few() {
	hands := int64(2*w.plan.hands + 2) // two agents, a visit, and who had it crash
	if lost, ends := w.tally["lost with a shared server"], w.blows.Load()+w.tally["servers crashed"]; lost > hands*ends {
		w.Errorf("%d calls were lost with a shared server that ended %d times at most", lost, ends)
	}
	if n := w.tally["refused as the daemon was slow"]; n > w.sent.Load()/100 {
		w.Errorf("%d of %d calls were refused since the daemon said nothing", n, w.sent.Load())
	}
}

// judge shows what was counted and what drifts, and fails the test if something does.
func (w *world) judge() {
	rows := w.book.rows()
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s, %d messages:", time.Since(w.begun).Round(time.Second), w.sent.Load())
	for _, what := range slices.Sorted(maps.Keys(w.tally)) {
		fmt.Fprintf(&text, "\n  %9d %s", w.tally[what], what)
	}
	text.WriteString("\n\n")
	table(&text, rows)
	fmt.Print(text.String())
	if w.plan.out != "" {
		if err := w.keep(text.String()); err != nil {
			w.Errorf("keep the samples: %v", err)
		}
	}
	if all := drifting(rows); len(all) > 0 {
		w.Errorf("this drifts:\n%s", strings.Join(all, "\n"))
	}
}

// keep writes the table and the samples.
func (w *world) keep(text string) error {
	f, err := os.Create(filepath.Join(w.plan.out, "samples.csv"))
	if err != nil {
		return err
	}
	err = w.book.save(f)
	return errors.Join(err, f.Close(), os.WriteFile(filepath.Join(w.plan.out, "table.txt"), []byte(text), 0o644))
}
