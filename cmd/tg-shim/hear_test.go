package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// joined is a proxy at a fake daemon.
func joined(tb testing.TB) (*proxy, *fakeGate) {
	tb.Helper()
	daemon := startFakeGate(tb)
	c, err := client.Dial(tb.Context(), client.WithSocket(daemon.path))
	if err != nil {
		tb.Fatal(err)
	}
	l, err := connect(tb.Context(), c.Attach, &pb.Hello{Protocol: client.Protocol, Attachment: "0123456789abcdef", Server: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	stream := l.stream
	tb.Cleanup(func() {
		stream.Close()
		c.Close()
	})
	return &proxy{server: "test", log: l.log, link: l, ledger: newLedger()}, daemon
}

// A daemon that refuses the shim on a stream that was open would refuse it again: the
// link ends, and says why.
func TestRefusedLater(t *testing.T) {
	p, daemon := joined(t)
	ran := make(chan error, 1)
	go func() { ran <- p.link.run(t.Context()) }() // ends with the stream
	daemon.tearFor(client.NewError(client.ReasonForbidden, "process 8 is no child of the shim"))
	if err, late := receive(ran); late != nil || !errors.Is(err, errGateLost) || !strings.Contains(err.Error(), "no child of the shim") {
		t.Errorf("got %v, %v", err, late)
	}
}

// A long line is told in pieces that overlap, a very long one without its middle.
func TestTellInPieces(t *testing.T) {
	for _, size := range []int{0, 100, whole, whole + 1, 3 * piece, longest, longest + 1, 5 << 20} {
		p, daemon := joined(t)
		line := make([]byte, size)
		random := rand.New(rand.NewPCG(1, 2)) // so that no part is like another
		for i := range line {
			line[i] = 'a' + byte(random.IntN(26))
		}
		copy(line[size/2:], "MIDDLE")
		copy(line[max(0, size-10):], "THEEND")
		p.tell(line, &pb.Observe{Direction: pb.Direction_DIRECTION_SERVER_TO_AGENT, Method: "tools/call", Unrecorded: true, Call: 7, Outcome: pb.Outcome_OUTCOME_OK})
		var told string
		for {
			o, err := receive(daemon.observations)
			if err != nil {
				t.Fatal(err)
			}
			if !o.GetUnrecorded() || o.GetMethod() != "tools/call" || o.GetDirection() != pb.Direction_DIRECTION_SERVER_TO_AGENT || len(o.GetLine()) > whole {
				t.Fatalf("size %d: told %.200s", size, o)
			}
			part := string(o.GetLine())
			if len(told) > shared && part != "" && strings.HasPrefix(part, told[len(told)-shared:]) {
				part = part[shared:]
			}
			told += part
			if o.GetCall() != 0 { // the last word
				if want := max(0, size-longest); o.GetMissing() != uint64(want) {
					t.Errorf("size %d: %d bytes are said to be missing, want %d", size, o.GetMissing(), want)
				}
				break
			}
		}
		want := string(line)
		if size > longest {
			want = want[:longest-tail] + want[size-tail:]
		}
		if told != want {
			t.Errorf("size %d: told %d bytes, want %d", size, len(told), len(want))
		}
	}
}

// What it costs on the way of a result that the daemon is told of it first. To
// find in the shim what the daemon looks for would cost there what
// BenchmarkObserve of daemon/facts shows: three or four times as much.
func BenchmarkTell(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 100 << 10, 8 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p, daemon := joined(b)
			done := make(chan struct{})
			defer close(done)
			go func() { // ends with done
				for {
					select {
					case <-daemon.observations:
					case <-done:
						return
					}
				}
			}()
			line := []byte(strings.Repeat("0123456789abcdef", size/16+1)[:size])
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				p.tell(line, &pb.Observe{Direction: pb.Direction_DIRECTION_SERVER_TO_AGENT, Method: "tools/call", Unrecorded: true})
			}
		})
	}
}
