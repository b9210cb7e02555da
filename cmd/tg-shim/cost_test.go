package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// What a call costs, told without a clock: whoever makes it cost more finds out here
// and not from somebody's battery. The bounds have room for machines that are slow,
// where what waits a few milliseconds for company has none.

// systemCalls are the reads and writes that a process has made.
type systemCalls struct{ reads, writes int }

// systemCallsOf returns false where the system does not tell: of a process that lets
// nobody look into it, as the daemon, it tells root alone.
func systemCallsOf(t *testing.T, pid int) (c systemCalls, told bool) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return c, false
	}
	for line := range strings.Lines(string(raw)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "syscr":
			c.reads = n
		case "syscw":
			c.writes = n
		}
	}
	return c, true
}

// echo makes calls of which flight are made in one write, and answered in one.
func (p *pair) echo(times, flight int) {
	p.t.Helper()
	for i := range times {
		var asks, answers []byte
		for j := range flight {
			id := i*flight + j
			asks = fmt.Appendf(asks, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"n":%d}}}`+"\n", id, id)
			answers = fmt.Appendf(answers, `{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`+"\n", id)
		}
		p.must(p.Send(asks))
		p.awaits(p.Server.Inbox, &p.seenServer, flight)
		p.must(p.Server.Send(answers))
		p.awaits(p.Agent, &p.seen, flight)
	}
}

// awaits waits until n more lines have come.
func (p *pair) awaits(b *rig.Inbox, seen *int, n int) {
	p.t.Helper()
	*seen += n
	if _, err := b.Await(*seen-1, rig.Patience, func([]byte) bool { return true }); err != nil {
		p.t.Fatalf("line %d: %v", *seen, err)
	}
}

// Lines that come together leave together: to the daemon, from it, to the server and
// to the agent. Two of the daemon's writes are a call's records.
func TestSystemCallsOfACall(t *testing.T) {
	h := newHouse(t, forwardAll)
	h.Shipped = true
	h.StartDaemon()
	p := startPair(t, h, rig.Options{Shipped: true})
	p.echo(3, 1)
	for _, test := range []struct {
		flight, times int
		shim, daemon  systemCalls // of ten calls, at most
	}{
		{1, 400, systemCalls{reads: 90, writes: 50}, systemCalls{reads: 60, writes: 80}},
		{30, 60, systemCalls{reads: 20, writes: 12}, systemCalls{reads: 15, writes: 35}},
	} {
		t.Run(fmt.Sprint(test.flight), func(t *testing.T) {
			shim, ofShim := systemCallsOf(t, p.PID())
			daemon, ofDaemon := systemCallsOf(t, h.Daemon.PID())
			if !ofShim && !ofDaemon {
				t.Skip("nobody counts system calls here")
			}
			p.echo(test.times, test.flight)
			tens := test.times * test.flight / 10
			if after, _ := systemCallsOf(t, p.PID()); ofShim {
				shim.check(t, "shim", after, tens, test.shim)
			}
			if after, _ := systemCallsOf(t, h.Daemon.PID()); ofDaemon {
				daemon.check(t, "daemon", after, tens, test.daemon)
			}
		})
	}
}

// check compares what was made since c with the most for ten calls.
func (c systemCalls) check(t *testing.T, who string, now systemCalls, tens int, most systemCalls) {
	t.Helper()
	reads, writes := now.reads-c.reads, now.writes-c.writes
	t.Logf("%s: ten calls take %.1f reads and %.1f writes", who, float64(reads)/float64(tens), float64(writes)/float64(tens))
	if reads > most.reads*tens || writes > most.writes*tens {
		t.Errorf("%s: %d reads and %d writes for %d calls, want %d and %d for ten at most", who, reads, writes, 10*tens, most.reads, most.writes)
	}
}

// atMost waits until there are no more goroutines than most: some may be about to end.
func atMost(t *testing.T, most int, what string) {
	t.Helper()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > most; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines %s, want %d at most", runtime.NumGoroutine(), what, most)
		}
	}
}

// A shim has a fixed number of goroutines, however many calls are in flight. What the
// test plays is counted with it: an agent, a server and a daemon.
func TestGoroutinesOfAShim(t *testing.T) {
	none := runtime.NumGoroutine()
	s := newStage(t, false)
	const each = 26 // half of them are the peers'
	atMost(t, none+each, "with a shim and its peers")
	idle := runtime.NumGoroutine()
	t.Logf("%d goroutines for a shim and its peers", idle-none)
	var asks bytes.Buffer
	for i := range 30 {
		fmt.Fprintf(&asks, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`+"\n", i)
	}
	go func() { _, _ = s.in[wire.FromAgent].Write(asks.Bytes()) }()
	for range 30 {
		if _, err := receive(s.daemon.submits); err != nil {
			t.Fatal(err)
		}
	}
	atMost(t, idle+10, "with 30 calls in flight")
}

// BenchmarkCall is a call and its answer on their way through a shim, between peers
// that the test plays.
func BenchmarkCall(b *testing.B) {
	s := newStage(b, false)
	b.ReportAllocs()
	for b.Loop() {
		s.roundTrip(b)
	}
}

// roundTrip is a call that the daemon forwards and the server answers.
func (s *stage) roundTrip(tb testing.TB) {
	_, err := s.in[wire.FromAgent].Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"path":"/srv/notes/1.txt"}}}` + "\n"))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := receive(s.daemon.submits)
	if err != nil {
		tb.Fatal(err)
	}
	s.daemon.send(forwarded(m))
	if _, err := receive(s.out[wire.FromServer]); err != nil {
		tb.Fatal(err)
	}
	if _, err = s.in[wire.FromServer].Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n")); err != nil {
		tb.Fatal(err)
	}
	if _, err := receive(s.out[wire.FromAgent]); err != nil {
		tb.Fatal(err)
	}
	if _, err := receive(s.daemon.observations); err != nil {
		tb.Fatal(err)
	}
}

// The bound counts what the test's peers allocate as well.
func TestAllocationsOfACall(t *testing.T) {
	s := newStage(t, false)
	got := rig.Allocations(200, func() { s.roundTrip(t) })
	t.Logf("%.1f allocations", got)
	if most := 220.0; got > most {
		t.Errorf("%.1f allocations for a call, want %.0f at most", got, most)
	}
}
