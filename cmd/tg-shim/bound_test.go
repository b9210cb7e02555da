package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// endless is a peer that writes the same line until the test is over, and counts.
type endless struct {
	line  []byte
	wrote chan int
	over  context.Context
	n     int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.over.Err() != nil {
		return 0, io.EOF
	}
	n := copy(b, bytes.Repeat(e.line, max(1, len(b)/len(e.line))))
	e.n += n
	select {
	case <-e.wrote:
	default:
	}
	e.wrote <- e.n
	return n, nil
}

// A peer that makes the shim answer, or cancels, and reads nothing is read no
// more after some megabytes: what it is owed must not fill the memory.
func TestUnreadAnswersAreBounded(t *testing.T) {
	id := string(bytes.Repeat([]byte("y"), 900))
	for name, line := range map[string]string{
		"answers":       `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"x"}}` + "\n",
		"cancellations": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"` + id + `"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			p := &proxy{server: "test", log: slog.New(slog.DiscardHandler), link: s.proxy.link, ledger: newLedger()}
			var reading sync.WaitGroup
			t.Cleanup(reading.Wait)  // once the lanes are closed
			for i := range p.lanes { // nobody reads at the other end of either
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				p.lanes[i] = newLane(w)
				go p.lanes[i].run()
				t.Cleanup(func() {
					p.lanes[i].close()
					w.Close()
					r.Close()
				})
			}
			peer := &endless{line: []byte(line), wrote: make(chan int, 1), over: t.Context()}
			reading.Go(func() { (&shim{log: p.log}).pump(context.Background(), p, wire.FromServer, peer) })
			go func() {
				for range s.daemon.observations { // the daemon takes them all
				}
			}()
			read := 0
			for quiet := false; !quiet; {
				select {
				case read = <-peer.wrote:
				case <-time.After(time.Second):
					quiet = true
				}
				if read > 16*laneBytes {
					t.Fatalf("%d bytes were read of a peer that reads nothing", read)
				}
			}
		})
	}
}

// An agent that reads nothing does not keep a shim that is told to end.
func TestUnreadAgentKeepsNobody(t *testing.T) {
	daemon := startFakeGate(t)
	dial := func(ctx context.Context, h *pb.Hello) (*client.Attachment, error) {
		c, err := client.Dial(ctx, client.WithSocket(daemon.path))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.Attach(ctx, h)
	}
	log := slog.New(slog.DiscardHandler)
	l, err := connect(t.Context(), dial, &pb.Hello{Protocol: client.Protocol, Attachment: "0123456789abcdef", Server: "test"}, log)
	if err != nil {
		t.Fatal(err)
	}
	noise := `while :; do echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}'; done`
	server, err := child.Start(child.Spec{Command: "/bin/sh", Args: []string{"-c", noise}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	stdin, agent, _ := os.Pipe()
	unread, stdout, _ := os.Pipe()
	t.Cleanup(func() {
		agent.Close()
		unread.Close()
		stdout.Close()
	})
	s := &shim{stdin: child.NewReadEnd(stdin), stdout: stdout, stderr: io.Discard, log: log}
	signals := make(chan os.Signal, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve(t.Context(), l, own{server}, signals)
	}()
	time.AfterFunc(300*time.Millisecond, func() { signals <- syscall.SIGTERM })
	select {
	case <-ended:
	case <-time.After(2 * patience):
		t.Fatal("the shim stays")
	}
}
