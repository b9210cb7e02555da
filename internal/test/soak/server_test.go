package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
)

// serverRole is the first argument of the test binary when it is the server that a
// shim wraps; the second is a file for what must never happen.
const serverRole = "soak-server"

// Tools of the server. What they may do is said by the rules of the fixture and by the
// server, which counts it as a breach when a call that cannot come does.
const (
	toolEcho       = "echo"
	toolDenied     = "denied"      // forwarded to nobody
	toolHeldYes    = "held_yes"    // held, and a person lets it through
	toolHeldNo     = "held_no"     // held, and a person refuses
	toolHeldCancel = "held_cancel" // held until the agent takes it back
	toolStall      = "stall"       // answered to nobody: the agent cancels it
	toolStalled    = "stalled"     // how many of those are open
	toolCrash      = "crash"
)

// crashed is the status with which a server leaves that is told to crash.
const crashed = 7

// filler is text of n bytes that no other name gives.
func filler(name string, n int) string {
	return strings.Repeat(name+".", n/(len(name)+1)+1)[:n]
}

// saying is what the server answers to a call that carried name and pad and asked for
// size bytes.
func saying(name string, size int, pad string) string {
	return fmt.Sprintf("%s %08x %s", name, crc32.ChecksumIEEE([]byte(pad)), filler(name, size))
}

// request is what the server reads.
type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name      string
		Arguments struct {
			N, Pad string
			Size   int
		}
		Version   string          `json:"protocolVersion"`
		RequestID json.RawMessage `json:"requestId"`
	}
}

// server answers at once, and in the order it reads.
type server struct {
	out      *bufio.Writer
	breaches string
	stalled  map[string]bool // ids of the calls that wait for their cancellation

	// The names of the calls that were executed, so that one that comes twice is
	// seen. The older ones are forgotten when there are many.
	now, before map[string]bool
}

const remembered = 50_000

func serve(in io.Reader, out io.Writer, breaches string) error {
	s := &server{out: bufio.NewWriterSize(out, 64<<10), breaches: breaches, stalled: map[string]bool{}, now: map[string]bool{}}
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil // the end
		}
		var q request
		if err := json.Unmarshal(line, &q); err != nil {
			s.breach("a line that is none: %v: %.200s", err, line)
			continue
		}
		s.answer(&q)
		if err := s.out.Flush(); err != nil {
			return err
		}
	}
}

// breach writes down what must never happen.
func (s *server) breach(format string, args ...any) {
	f, err := os.OpenFile(s.breaches, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", args...)
		f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3) // silence would be taken for innocence
	}
}

func (s *server) result(id json.RawMessage, result string) {
	fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
}

func (s *server) answer(q *request) {
	switch q.Method {
	case "initialize":
		s.result(q.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"soak","version":"1"}}`, q.Params.Version))
	case "ping":
		s.result(q.ID, "{}")
	case "notifications/cancelled":
		delete(s.stalled, string(q.Params.RequestID))
	case "tools/call":
		s.call(q)
	default:
		if q.ID != nil {
			s.breach("asked for %s", q.Method)
		}
	}
}

func (s *server) call(q *request) {
	n := q.Params.Arguments.N
	if s.now[n] || s.before[n] {
		s.breach("%s %s came twice", q.Params.Name, n)
	}
	if len(s.now) >= remembered {
		s.now, s.before = map[string]bool{}, s.now
	}
	s.now[n] = true
	switch q.Params.Name {
	case toolEcho, toolHeldYes:
		s.result(q.ID, text(saying(n, q.Params.Arguments.Size, q.Params.Arguments.Pad)))
	case toolStall:
		s.stalled[string(q.ID)] = true
	case toolStalled:
		s.result(q.ID, text(fmt.Sprint(len(s.stalled))))
	case toolCrash:
		os.Exit(crashed)
	default:
		s.breach("%s %s was forwarded", q.Params.Name, n)
	}
}

// text is a result that says so; what is said needs no escapes.
func text(said string) string { return `{"content":[{"type":"text","text":"` + said + `"}]}` }
