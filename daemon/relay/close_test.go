package relay

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	aCall   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
	aPing   = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	aResult = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
)

// steps plays steps, none of which may fail.
func (s *stage) steps(steps ...string) {
	s.t.Helper()
	for _, step := range steps {
		if err := s.play(step); err != nil {
			s.t.Fatalf("%s\n%v", step, err)
		}
	}
}

// hangUp closes what a side writes to.
func (s *stage) hangUp(side wire.Side) {
	close(s.lines[side])
	s.lines[side] = make(chan string)
}

// over waits until the session has ended, and checks that a side has read the end of its input
// with nothing before it.
func (s *stage) over(sides ...wire.Side) {
	s.t.Helper()
	select {
	case <-s.session.Done():
	case <-time.After(testTimeout):
		s.t.Fatal("the session has not ended")
	}
	for _, side := range sides {
		s.atEnd(side)
	}
}

func (s *stage) atEnd(side wire.Side) {
	s.t.Helper()
	select {
	case line, more := <-s.out[side]:
		if more {
			s.t.Errorf("side %v reads %s", side, line)
		}
	case <-time.After(testTimeout):
		s.t.Errorf("side %v does not read the end", side)
	}
}

// The agent's requests are answered before the server's input is closed.
func TestAgentHasSaidAll(t *testing.T) {
	s := newStage(t, play{})
	s.letGo()
	s.steps("judged "+aCall, "cross "+aPing)
	s.hangUp(fromAgent)
	s.steps("return "+aResult, `return {"jsonrpc":"2.0","id":2,"result":{}}`)
	s.atEnd(fromServer)
	s.hangUp(fromServer)
	s.over(fromAgent)
}

// A call that is held when the agent closes its input is answered too.
func TestAgentHasSaidAllWithACallHeld(t *testing.T) {
	s := newStage(t, play{})
	s.letGo()
	s.steps("agent> "+aCall, "submit "+aCall, "pending")
	s.hangUp(fromAgent)
	s.steps("silent server", "forward", "server< "+aCall, "return "+aResult)
	s.atEnd(fromServer)
	s.hangUp(fromServer)
	s.over(fromAgent)
}

// An agent that has closed its input is not waited for forever: after a while the server's
// input is closed. What the server does not answer before its end stays without an answer.
func TestAgentHasSaidAllAndIsNotAnswered(t *testing.T) {
	s := newStage(t, play{})
	ends := s.ends()
	s.leave()
	s.runWith(ends, func(session *Session) { session.answerTimeout = time.Millisecond })
	s.letGo()
	s.steps("judged "+aCall, "cross "+aPing)
	s.hangUp(fromAgent)
	s.atEnd(fromServer)
	s.steps("return " + aResult) // while it flushes
	s.hangUp(fromServer)
	s.over(fromAgent)
	s.steps("observe outcome:OUTCOME_OK")
}

// A server that ends is read to its end. Requests that it did not answer are answered with an
// error, as are those that the agent sends before it can know of the end.
func TestServerEnds(t *testing.T) {
	s := newStage(t, play{})
	s.letGo()
	s.steps("judged "+aCall, "cross "+aPing, "server> "+aResult)
	s.hangUp(fromServer)
	s.steps("agent< "+aResult, `agent< {"jsonrpc":"2.0","id":2,"error":{"code":-31012,"message":"The MCP server has ended and did not answer"}}`)
	s.over(fromAgent, fromServer)
	s.steps("observe outcome:OUTCOME_OK")
}

// At a signal, lines under way are delivered and the server's input is closed. Held lines are
// denied.
func TestSignal(t *testing.T) {
	s := newStage(t, play{})
	s.letGo()
	s.session.grace.Stdin, s.session.grace.Term = testTimeout, testTimeout
	held := strings.Replace(aCall, `"id":1`, `"id":7`, 1)
	s.steps("judged "+aCall, "agent> "+held, "submit "+held, "pending")
	s.session.Signal()
	s.steps("cancel 2")
	s.atEnd(fromServer)
	s.steps("server> " + aResult) // while it flushes
	s.hangUp(fromServer)
	s.steps(`agent< {"jsonrpc":"2.0","id":7,"error":{"code":-31010,"message":"Not executed: the agent has left"}}`, "agent< "+aResult)
	s.over(fromAgent)
}

// When the daemon ends a session, answers under way still arrive.
func TestDrain(t *testing.T) {
	s := newStage(t, play{})
	s.letGo()
	held := strings.Replace(aCall, `"id":1`, `"id":7`, 1)
	s.steps("judged "+aCall, "agent> "+held, "submit "+held, "pending")
	s.session.Drain("the policy has changed")
	s.steps(`agent< {"jsonrpc":"2.0","id":7,"error":{"code":-31010,"message":"Not executed: the policy has changed"}}`, "return "+aResult)
	s.atEnd(fromServer)
	s.hangUp(fromServer)
	s.over(fromAgent)
}

// A session without a server answers until the agent leaves.
func TestRefusal(t *testing.T) {
	s := newStage(t, play{})
	ends := s.ends()
	ends.Server.close(s.session.closeDescriptor)
	s.session.Leave()
	<-s.ended
	ends.Server = &Refusal{-31008, "The MCP server could not be started: no such file"}
	s.run(ends)
	s.letGo()
	for range 2 {
		s.steps("agent> "+aCall, `agent< {"jsonrpc":"2.0","id":1,"error":{"code":-31008,"message":"The MCP server could not be started: no such file"}}`)
	}
	s.steps(`agent> {"jsonrpc":"2.0","method":"notifications/initialized"}`, "agent> "+aPing,
		`agent< {"jsonrpc":"2.0","id":2,"error":{"code":-31008,"message":"The MCP server could not be started: no such file"}}`)
	s.hangUp(fromAgent)
	s.over(fromAgent)
}

// process starts a program, and returns it as a session knows it when it has written
// something.
func process(t *testing.T, script string) (*exec.Cmd, *proc.Handle) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = said.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := proc.Open(proc.Process{PID: int32(cmd.Process.Pid)})
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

// A dead agent's server is stopped in three steps; the second signal and the third skip one.
func TestAgentDies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no handles of processes here")
	}
	for _, hurried := range []bool{false, true} {
		s := newStage(t, play{})
		ends := s.ends()
		s.session.Leave()
		<-s.ended
		cmd, p := process(t, `trap "" TERM; echo; exec sleep 600`) // it ends when it is killed
		ends.Server.(*Pipes).Process = p
		agent, theirs := sockets(t)
		ends.Agent.To.Close()
		ends.Agent.To = theirs
		s.runWith(ends, func(session *Session) {
			session.grace.Stdin, session.grace.Term = time.Millisecond, time.Millisecond
			if hurried {
				session.grace.Stdin, session.grace.Term = testTimeout, testTimeout
			}
		})
		s.letGo()
		agent.Close() // nobody reads any more
		if hurried {
			for range 3 {
				s.session.Signal()
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the server: %v", err)
		}
		s.hangUp(fromServer)
		s.over(fromServer)
	}
}

// An agent that reads nothing does not delay the close of a session. A write to a socket that
// nobody reads is ended.
func TestCloseWhileNobodyReads(t *testing.T) {
	s := newStage(t, play{})
	ends := s.ends()
	s.session.Leave()
	<-s.ended
	agent, theirs := sockets(t)
	defer agent.Close()
	ends.Agent.To.Close()
	ends.Agent.To = theirs
	s.run(ends)
	line := `server> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1<<20) + `"}}`
	s.steps(line, line)
	if err := s.until("the agent's socket is full", func() bool { return s.session.outputs[0].writing }); err != nil {
		t.Fatal(err)
	}
	s.session.Close()
	s.over()
}

// LetGo is called for a descriptor before it is closed. The descriptor that tells tg-shim that
// everything is written is closed last.
func TestDescriptorsAreLetGo(t *testing.T) {
	s := newStage(t, play{})
	ends := s.ends()
	s.session.Leave()
	<-s.ended
	drained, theirs := pipeOf(t)
	defer drained.Close()
	ends.Drained = theirs
	var gone []string
	ends.LetGo = func(f *os.File) {
		if pipe.Ready(int(drained.Fd())) {
			t.Error("it is drained before all is closed")
		}
		gone = append(gone, f.Name())
	}
	last := theirs.Name()
	s.run(ends)
	s.letGo()
	s.hangUp(fromAgent)
	s.atEnd(fromServer)
	s.hangUp(fromServer)
	s.over(fromAgent)
	if len(gone) != 8 || gone[len(gone)-1] != last {
		t.Errorf("let go of %q", gone)
	}
	if err := unix.SetNonblock(int(drained.Fd()), true); err != nil {
		t.Fatal(err)
	}
	if n, err := drained.Read(make([]byte, 1)); n != 0 || err == nil || err.Error() != "EOF" {
		t.Errorf("drained has %d bytes, %v", n, err)
	}
}

func sockets(t *testing.T) (r, w *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
}

// fillAgent adds more output to the agent than its pipe holds, through the goroutine that
// writes what the server's pump does not.
func (s *stage) fillAgent() {
	s.t.Helper()
	if err := s.until("the server's pump waits for input", func() bool {
		return s.session.inputs[fromServer].(*input).idle // before, it writes what it finds for the agent
	}); err != nil {
		s.t.Fatal(err)
	}
	const refused = 2000
	for range refused {
		s.steps(`agent> [{"jsonrpc":"2.0","id":9,"method":"ping"}]`)
	}
	if err := s.until("the agent's pipe is full", func() bool {
		return s.session.outputs[fromAgent].writing && len(s.session.state.out[fromAgent].items) > refused/2
	}); err != nil {
		s.t.Fatal(err)
	}
}

// Pending output in a daemon's memory, when that leaves, is available to the next daemon.
func TestLeaveWhileALineWaits(t *testing.T) {
	s := newStage(t, play{})
	s.session.Leave()
	<-s.ended
	agent, to := pipeOf(t)
	s.kept[1].Close()
	s.kept[1] = to
	s.begin()
	s.fillAgent()
	const late = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"late"}}`
	s.steps("server> " + late)
	if err := s.until("a line waits behind it", func() bool {
		return s.session.state.out[fromAgent].refers() && s.session.inputs[fromServer].(*input).idle
	}); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.begin()
	reads(t, agent, late)
}

// A write that is interrupted because the daemon leaves is continued by the next daemon, and
// not begun again.
func TestLeaveWhileALongLineWaits(t *testing.T) {
	s := newStage(t, play{})
	s.session.Leave()
	<-s.ended
	agent, to := pipeOf(t)
	s.kept[1].Close()
	s.kept[1] = to
	s.begin()
	late := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1<<20) + `"}}`
	s.steps("server> " + late)
	if err := s.until("it is being written", func() bool { return s.session.outputs[fromAgent].writing }); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.begin()
	defer agent.Close()
	line, err := bufio.NewReader(agent).ReadString('\n')
	if err != nil || line != late+"\n" {
		t.Errorf("the agent reads %d bytes, %d were written: %v", len(line), len(late)+1, err)
	}
}

// reads reads lines until it finds one.
func reads(t *testing.T, agent *os.File, want string) {
	t.Helper()
	defer agent.Close()
	lines := bufio.NewScanner(agent)
	for lines.Scan() && lines.Text() != want {
	}
	if lines.Text() != want {
		t.Errorf("the last that the agent reads is %q: %v", lines.Text(), lines.Err())
	}
}

// The same for a judged answer that follows a line for the agent.
func TestLeaveWhileAnAnnouncedAnswerWaits(t *testing.T) {
	s := newStage(t, play{})
	s.leave()
	agent, to := pipeOf(t)
	s.kept[1].Close()
	s.kept[1] = to
	s.begin()
	s.steps("agent> "+aCall, "submit "+aCall, "notify "+aCall, "server< "+aCall)
	s.fillAgent()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}`
	s.steps("server> "+answer, "submit "+answer, "forward")
	if err := s.until("the answer waits", func() bool {
		return slices.ContainsFunc(s.session.state.out[fromAgent].items, func(i item) bool { return i.seq > 0 })
	}); err != nil {
		t.Fatal(err)
	}
	s.leave()
	s.begin()
	reads(t, agent, strings.Replace(answer, `"content":[`, `"content":[{"type":"text","text":"changed"}`, 1))
}

// An answer that is judged while its session ends is not sent as a second answer.
func TestAnswerJudgedForTooLong(t *testing.T) {
	s := newStage(t, play{})
	s.steps("agent> "+aCall, "submit "+aCall, "forward", "server< "+aCall)
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}`
	s.steps("server> "+answer, "submit "+answer)
	s.session.mu.Lock()
	s.session.fail() // as the session does after its timeout
	s.session.mu.Unlock()
	if got := <-s.out[fromAgent]; !strings.Contains(got, `"id":1,"error":{"code":-31012`) {
		t.Errorf("the agent reads %s", got)
	}
	s.steps("forward")
	if err := s.until("the answer was dealt with", s.session.inputs[fromServer].handledAll); err != nil {
		t.Fatal(err)
	}
	select {
	case more := <-s.out[fromAgent]:
		t.Errorf("the agent reads %s, too", more)
	default:
	}
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if owes := s.session.state.owes(fromAgent); owes {
		t.Error("the agent is to read more")
	}
}

// Calls that are held when the server ends get one answer each, even if the agent sends more
// requests meanwhile.
func TestHeldWhenTheServerEnds(t *testing.T) {
	s := newStage(t, play{})
	for id := range 4 {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, id)
		s.steps("agent> "+call, "submit "+call, fmt.Sprintf("pending %d", id+1))
	}
	cancels := make(chan uint64) // withdrawing a question blocks until the test receives
	s.judge.setCancels(cancels)
	failed := make(chan struct{})
	go func() { // ends when everything is withdrawn
		defer close(failed)
		s.session.mu.Lock()
		defer s.session.mu.Unlock()
		s.session.fail()
	}()
	<-cancels
	s.steps(`agent> {"jsonrpc":"2.0","id":"last","method":"ping"}`)
	answers := []string{<-s.out[fromAgent]}
	for !strings.Contains(answers[len(answers)-1], `"id":"last"`) {
		answers = append(answers, <-s.out[fromAgent])
	}
	for range 3 {
		<-cancels
	}
	<-failed
	if err := s.until("the agent was written all", func() bool { return s.session.written(fromAgent) }); err != nil {
		t.Fatal(err)
	}
	for len(s.out[fromAgent]) > 0 {
		answers = append(answers, <-s.out[fromAgent])
	}
	if len(answers) != 5 {
		t.Errorf("5 requests have %d answers:\n%s", len(answers), strings.Join(answers, "\n"))
	}
}

// A call that was judged while the server ended is not held afterwards: it is denied, and its
// question withdrawn.
func TestHeldAfterTheServerEnded(t *testing.T) {
	s := newStage(t, play{})
	s.steps("agent> "+aCall, "submit "+aCall)
	s.session.mu.Lock()
	s.session.fail()
	s.session.mu.Unlock()
	m := s.open[0]
	s.judge.say(m, gate.Verdict{Seq: m.Seq, Move: gate.Ask, Approval: "A-1"})
	if got := <-s.out[fromAgent]; !strings.Contains(got, `"id":1,"error":{"code":-31012`) {
		t.Errorf("the agent reads %s", got)
	}
	s.steps("cancel 1", "forward", `agent> {"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := <-s.out[fromAgent]; !strings.Contains(got, `"id":2,"error":{"code":-31012`) {
		t.Errorf("the agent reads %s", got)
	}
	if err := s.session.Err(); err != nil {
		t.Error(err)
	}
}

// faultyJudge panics on each message.
type faultyJudge struct{ *playedJudge }

func (faultyJudge) CountMessages(wire.Side, string, uint64) { panic("of the test") }

// slowHandler is a slog.Handler that gives others time.
type slowHandler struct{ slog.Handler }

func (slowHandler) Enabled(context.Context, slog.Level) bool { return true }
func (slowHandler) Handle(context.Context, slog.Record) error {
	time.Sleep(50 * time.Millisecond) // for what must not happen meanwhile
	return nil
}

// A panic ends the session in which it occurs, with an error that says so, and nothing else.
// The server is stopped. The session does not begin to end as if the agent or the server had
// left.
func TestFault(t *testing.T) {
	for _, step := range []string{"agent> ", "server> "} {
		t.Run(step, func(t *testing.T) {
			s := newStage(t, play{})
			s.leave()
			session, err := New(faultyJudge{s.judge}, s.ends(), slog.New(slowHandler{slog.DiscardHandler}))
			if err != nil {
				t.Fatal(err)
			}
			s.session, s.ended = session, make(chan struct{})
			go func() { // ends with the session
				defer close(s.ended)
				session.Run()
			}()
			s.letGo()
			s.steps(step + aPing)
			s.over(fromAgent, fromServer)
			if err := session.Err(); err == nil || !strings.Contains(err.Error(), "internal error of ThoughtGate") {
				t.Errorf("the session has ended with %v", err)
			}
			if session.ending.begun {
				t.Error("it was ended in order")
			}
		})
	}
}
