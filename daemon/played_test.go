package daemon_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// played is an agent, a server and the shim between them, all simulated by the test. The shim has
// passed their pipes to the daemon, which forwards the lines.
type played struct {
	t          *testing.T
	home       *home
	welcome    *attach.Welcome
	attachment string

	agent, server     *os.File    // what each writes
	toAgent, toServer chan string // lines that each reads, until the session ends
	notices           rig.Buffer  // notifications that the agent reads; they are not in toAgent

	daemon  attach.Daemon
	output  *os.File // what the agent reads
	drained *os.File
	reading sync.WaitGroup
	id      int // of the last request
	over    bool
}

var attachments atomic.Int64

// attach attaches with a server that writes what the test tells it to.
func (h *home) attach(t *testing.T) *played {
	t.Helper()
	return h.join(t, attach.Hello{}, nil)
}

func (h *home) join(t *testing.T, hello attach.Hello, serve func(in io.Reader, out io.Writer)) *played {
	t.Helper()
	p, err := h.tryJoin(t, hello, serve)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryJoin attaches as a shim with hello, of which only the fields that matter to the test are set.
// The server is serve, or nil if the test simulates it with toServer and server. The session ends
// with the test, unless its pipes are kept.
func (h *home) tryJoin(t *testing.T, hello attach.Hello, serve func(in io.Reader, out io.Writer)) (*played, error) {
	t.Helper()
	var r, w [5]*os.File // agent's input and output, server's input and output, drained
	for i := range r {
		var err error
		if r[i], w[i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	theirs, ours := []*os.File{r[0], w[1], w[2], r[3], w[4]}, []*os.File{w[0], r[1], r[2], w[3], r[4]}
	hello.Build, hello.Attachment = "test", fmt.Sprintf("%032d", attachments.Add(1))
	hello.Server, hello.Cwd = cmp.Or(hello.Server, "files"), cmp.Or(hello.Cwd, "/")
	if len(hello.Command) == 0 {
		hello.Command = []string{"cat"}
	}
	var fds []int
	for _, f := range theirs {
		fds = append(fds, int(f.Fd()))
	}
	daemon := attach.Daemon(h.paths.ShimSocket())
	welcome, err := daemon.Attach(t.Context(), &hello, fds...)
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	p := &played{
		t: t, home: h, welcome: welcome, attachment: hello.Attachment, daemon: daemon, agent: w[0], output: r[1], server: w[3], drained: r[4],
		toAgent: make(chan string, 1024), toServer: make(chan string, 1024),
	}
	p.begin(r[2], serve)
	if h.keep == nil {
		t.Cleanup(p.close)
	}
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// begin starts the server and a process that stands for it, since a shim must name a process that
// it started. The process ends with the server.
func (p *played) begin(in *os.File, serve func(in io.Reader, out io.Writer)) {
	p.t.Helper()
	process := exec.Command("cat")
	alive, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if serve == nil {
		serve = func(in io.Reader, _ io.Writer) { eachLine(in, func(line string) { p.toServer <- line }) }
	}
	p.reading.Go(func() {
		defer close(p.toServer)
		serve(in, p.server)
		in.Close()
		p.server.Close()
		alive.Close()
		_ = process.Wait() // the daemon may have ended it first
	})
	p.reading.Go(func() {
		defer close(p.toAgent)
		eachLine(p.output, func(line string) {
			if strings.Contains(line, `"method":"notifications/`) {
				fmt.Fprintln(&p.notices, line)
				return
			}
			p.toAgent <- line
		})
	})
	if err := p.daemon.Started(p.t.Context(), p.attachment, process.Process.Pid, ""); err != nil {
		p.t.Fatal(err)
	}
}

// eachLine reads lines until the end.
func eachLine(in io.Reader, each func(string)) {
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			if line != "" {
				each("cut: " + line)
			}
			return
		}
		each(strings.TrimSuffix(line, "\n"))
	}
}

// close makes the agent leave, and waits until the session has ended. It fails the test if the
// server got lines that the test has not read.
func (p *played) close() {
	p.t.Helper()
	if p.over {
		return
	}
	p.over = true
	p.agent.Close()
	p.output.Close()
	_ = p.drained.SetReadDeadline(time.Now().Add(rig.Timeout)) // a pipe has deadlines
	if _, err := io.Copy(io.Discard, p.drained); err != nil {
		p.t.Errorf("the session does not end: %v", err)
		return
	}
	p.drained.Close()
	for line := range p.toServer {
		p.t.Errorf("the server got %s", line)
	}
	for range p.toAgent { // until it is closed
	}
	p.reading.Wait()
}

// next returns the next line that a side reads.
func (p *played) next(side <-chan string) string {
	p.t.Helper()
	select {
	case line, ok := <-side:
		if !ok {
			p.t.Fatal("the session has ended")
		}
		return line
	case <-time.After(rig.Timeout):
		p.t.Fatal("no line comes")
	}
	return ""
}

// write makes a side write a line.
func (p *played) write(side *os.File, line string) {
	p.t.Helper()
	if _, err := side.WriteString(line + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// fate is what happens to a request, as seen from outside.
type fate struct {
	verdict  string // forward if the server got the exact line; deny; ask
	reason   string // as shown to the agent or the person
	question *pb.Approval
}

// send makes the agent send the next request, and returns its line.
func (p *played) send(members string) string {
	p.t.Helper()
	p.id++
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, p.id, members)
	p.write(p.agent, line)
	return line
}

// request makes the agent send the next request, and waits for its fate.
func (p *played) request(members string) fate {
	p.t.Helper()
	line := p.send(members)
	tick := time.NewTicker(5 * time.Millisecond) // polling interval
	defer tick.Stop()
	for end := time.Now().Add(rig.Timeout); time.Now().Before(end); {
		select {
		case got := <-p.toServer:
			if got != line {
				p.t.Fatalf("the server gets %s\nwant %s", got, line)
			}
			return fate{verdict: "forward"}
		case answer := <-p.toAgent:
			return fate{verdict: "deny", reason: p.refusal(answer)}
		case <-tick.C:
			if q := p.home.newQuestion(p.t); q != nil {
				p.home.awaitHold(p.t, q.GetId())
				return fate{verdict: "ask", reason: q.GetReason(), question: q}
			}
		}
	}
	p.t.Fatalf("nothing becomes of %s", line)
	return fate{}
}

// newQuestion returns a waiting question that was not returned before, or nil.
func (h *home) newQuestion(t *testing.T) *pb.Approval {
	t.Helper()
	open, err := h.control(t).ListApprovals(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range open {
		if !h.asked[q.GetId()] {
			h.asked[q.GetId()] = true
			return q
		}
	}
	return nil
}

// awaitHold waits until the record shows that a call is held. That happens after the question is
// asked.
func (h *home) awaitHold(t *testing.T, question string) {
	t.Helper()
	for end := time.Now().Add(rig.Timeout); ; time.Sleep(time.Millisecond) {
		for _, r := range h.records(t, "call") {
			if strings.Contains(string(r.GetLine()), fmt.Sprintf(`"approval":%q`, question)) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("that a call is held is not on record: %s", question)
		}
	}
}

// refusal returns the reason in an answer that denies the last request.
func (p *played) refusal(answer string) string {
	p.t.Helper()
	var a struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
		Error struct{ Message string }
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.ID != p.id {
		p.t.Fatalf("no answer to request %d: %s, %v", p.id, answer, err)
	}
	if a.Result.IsError && len(a.Result.Content) == 1 {
		return a.Result.Content[0].Text
	}
	if a.Error.Message == "" {
		p.t.Fatalf("that is no refusal: %s", answer)
	}
	return a.Error.Message
}

// call makes the agent call a tool, without arguments if there are none.
func (p *played) call(tool string, arguments ...string) fate {
	p.t.Helper()
	return p.request(callOf(tool, arguments...))
}

func callOf(tool string, arguments ...string) string {
	return fmt.Sprintf(`"method":"tools/call","params":{"name":%q,"arguments":%s}`, tool, cmp.Or(strings.Join(arguments, ""), "{}"))
}

// expect is call with the expected fate.
func (p *played) expect(verdict, reason, tool string, arguments ...string) fate {
	p.t.Helper()
	f := p.call(tool, arguments...)
	if f.verdict != verdict || !strings.Contains(f.reason, reason) {
		p.t.Errorf("%s %s: got %s (%s), want %s (%s)", tool, arguments, f.verdict, f.reason, verdict, reason)
	}
	return f
}

// Answers of servers.
const (
	done   = `"result":{"content":[]}`
	failed = `"result":{"content":[],"isError":true}`
	broken = `"error":{"code":-32603,"message":"it broke"}`
)

// answer makes the server answer the last request, and returns the line that the agent gets.
func (p *played) answer(members string) string {
	p.t.Helper()
	p.write(p.server, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, p.id, members))
	return p.next(p.toAgent)
}

// list makes the agent list the tools, and the server answer with these.
func (p *played) list(tools string) {
	p.t.Helper()
	if f := p.request(`"method":"tools/list"`); f.verdict != "forward" {
		p.t.Fatalf("tools/list: %s (%s)", f.verdict, f.reason)
	}
	p.answer(`"result":{"tools":[` + tools + `]}`)
}

// takeBack makes the agent cancel the last request.
func (p *played) takeBack() {
	p.t.Helper()
	p.write(p.agent, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, p.id))
}

// records returns the records of a kind, or all records.
func (h *home) records(t *testing.T, kind string) (all []*pb.AuditRecord) {
	t.Helper()
	for r, err := range h.control(t).ReadAudit(t.Context(), &pb.AuditQuery{Kind: kind}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}
