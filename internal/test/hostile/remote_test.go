package hostile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// TestRemote plays the cases of the legacy era with a server behind an address. What becomes of the
// bytes is the same as over pipes. The server is one of 2024-11-05, whose stream has all that the server
// says, in the order of its lines.
func TestRemote(t *testing.T) {
	fixture := rig.NewFixture(t)
	fixture.Configure(policy)
	fixture.Shipped = true
	fixture.StartDaemon()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("all", func(t *testing.T) { // so that the fixture outlives them
		for i, c := range readCases(t, *casesFile) {
			if i%*behind > 0 { // make test-all plays all of them
				continue
			}
			t.Run(strings.ReplaceAll(c.Class, "/", "_")+"/"+c.ID, func(t *testing.T) {
				switch {
				case c.Direction != fromServer:
					t.Skip("the agent's side has pipes")
				case c.Era == "modern":
					t.Skip("2024-11-05 is not modern")
				case notRemote[c.ID] != "":
					t.Skip(notRemote[c.ID])
				}
				t.Parallel()
				for _, problem := range run(t, fixture, c, rig.Options{Through: []string{self, bridgeRole}}) {
					t.Error(problem)
				}
			})
		}
	})
}

const (
	ownEvent = "the lines are events, which end where the server says, whatever is in them"
	isLost   = "the session is renewed: nobody can know what the message was the answer to"
)

// notRemote says why cases mean something else behind an address. What such bytes come to there is in the
// tests of daemon/remote.
var notRemote = map[string]string{
	"s-framing-cr-between-two": ownEvent, "s-framing-request-in-a-text": ownEvent, "s-framing-two-messages-in-a-text": ownEvent,
	"s-framing-message-in-a-text-with-crlf": ownEvent, "s-framing-message-in-a-text": ownEvent,
	"s-framing-too-long": isLost, "s-framing-too-long-id-last": isLost, "s-framing-no-line-end-at-all": isLost,
}

// bridgeRole is the role of a program that has the server, the rest of its command line, behind an
// address, and is its client.
const bridgeRole = "hostile-bridge"

// front is an HTTP server in front of a server on pipes.
type front struct {
	in   io.WriteCloser
	out  *bufio.Reader
	gone bool
	mu   sync.Mutex
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		defer f.mu.Unlock()
		_, _ = f.in.Write(append(body, '\n'))
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodGet && !f.gone:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
		f.copy(w)
		f.gone = true
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// copy writes each line of the server as an event, as it arrives.
func (f *front) copy(w http.ResponseWriter) {
	begins := true
	for {
		_ = http.NewResponseController(w).Flush()
		part, err := f.out.ReadSlice('\n')
		if begins && len(part) > 0 {
			_, _ = io.WriteString(w, "data: ")
		}
		_, _ = w.Write(part)
		if begins = err == nil; begins {
			_, _ = io.WriteString(w, "\n")
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			_, _ = io.WriteString(w, "\n\n") // a last line without end
			return
		}
	}
}

// output is the client of the connection.
type output struct{ gone chan error }

func (o output) DeliverWait(_ context.Context, line []byte) error {
	_, err := os.Stdout.Write(append(bytes.Clone(line), '\n'))
	return err
}

func (o output) Gone(err error) { o.gone <- err }

// bridge runs the program and returns its exit code.
func bridge(command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the bridge of a test:", err)
		return 1
	}
	s := httptest.NewServer(&front{in: in, out: bufio.NewReader(out)})
	client := output{make(chan error, 4)}
	conn, err := remote.NewNetwork(net.DefaultResolver, slog.New(slog.DiscardHandler)).Open(remote.Server{ID: "x", Address: s.URL, Policy: remote.Named}, client)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the bridge of a test:", err)
		return 1
	}
	go func() {
		defer in.Close()
		lines := wire.NewReader(os.Stdin, 0)
		for line := new(wire.Line); lines.Next(line) == nil; {
			if conn.Write(context.Background(), line.Data) != nil {
				return
			}
		}
	}()
	<-client.gone
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}
