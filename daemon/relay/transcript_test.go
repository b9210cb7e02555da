package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A transcript is what an agent, a server and a judge do, and what each must receive. It has
// one step per line:
//
//	agent> LINE      the agent writes LINE
//	agent< LINE      the agent reads LINE next
//	server> LINE     likewise the server
//	server< LINE
//	submit LINE      the next line submitted to the judge is LINE
//	forward          the judge's verdict on the oldest line without a final one
//	replace LINE     the same, with LINE in its place
//	deny LINE        the judge denies and answers with LINE; "deny" alone without one
//	pending          the judge asks a person
//	asking           the judge asks extensions
//	inspect          a forward after which the judge wants the result; "inspect LINE"
//	                 replaces the line by LINE
//	came N LINE      the last submission has call N, written as LINE; "came" alone:
//	                 it has none
//	forward N, …     the verdict on line N instead
//	cancel N         line N is cancelled at the judge
//	deliver LINE     the daemon sends the agent LINE
//	observe TEXT     the judge is told of something that contains TEXT, before it is
//	                 told of another refused line
//	notice TEXT      the same, with other things before it
//	silent agent     the agent reads nothing for a while; likewise server
//	deaf             from here on Hear of the judge blocks
//	heard            it returns
//	tear             the daemon is killed, and the next one has forgotten all verdicts
//	opened LINE      a shared server is resumed next, with the handshake LINE
//	cross LINE       the agent writes LINE and the server reads it next
//	return LINE      the server writes LINE and the agent reads it next
//	judged LINE      the agent writes LINE, the judge gets it and forwards it, and the
//	                 server reads it next
//	weighed LINE     likewise from the server to the agent
//	lines starting with # are comments
//
// {«» starts a JSON-RPC message, and «modern» is the _meta of a modern request.
//
// At the end each side gets a last line that passes, and must read nothing before it: what
// should not be forwarded was not.
func TestTranscripts(t *testing.T) {
	playTranscripts(t, play{})
}

// They are played again with long lines.
func TestTranscriptsOfLongLines(t *testing.T) {
	playTranscripts(t, play{behind: strings.Repeat(" ", 70<<10)})
}

// And with blank lines after each message, written together with it: it waits for nothing that
// comes after them.
func TestTranscriptsWithBlankLines(t *testing.T) {
	playTranscripts(t, play{behind: "\n \r"})
}

// And with a server that ends with the daemon, without a next daemon.
func TestTranscriptsOfShared(t *testing.T) {
	playTranscripts(t, play{shared: true})
	files, err := filepath.Glob("testdata/shared/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			playTranscript(t, file, string(text), play{shared: true})
		})
	}
}

// And with a new daemon after each step.
func TestTranscriptsOfManyDaemons(t *testing.T) {
	playTranscripts(t, play{restarts: true})
}

// play is how transcripts are played.
type play struct {
	behind   string // blanks after each line that a side writes
	restarts bool   // after each step a new daemon takes over
	shared   bool   // the server is one that ends with the daemon
	longest  int    // maximum length of a line; 0: longer than any line
}

// transcripts returns their files.
func transcripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	return files
}

func playTranscripts(t *testing.T, p play) {
	for _, file := range transcripts(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if p.restarts && name == "heard" {
			continue // a session is not left while the judge is in Hear
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if p.shared && strings.Contains(string(text), "\ntear\n") {
				t.Skip("another daemon has another server")
			}
			playTranscript(t, file, string(text), p)
		})
	}
}

func playTranscript(t *testing.T, file, text string, p play) {
	s := newStage(t, p)
	for i, step := range strings.Split(text, "\n") {
		if step == "" || strings.HasPrefix(step, "#") {
			continue
		}
		if err := s.play(step); err != nil {
			t.Fatalf("%s:%d: %s\n%v", file, i+1, step, err)
		}
		// What is written while a line is being judged is handled by the daemon that has it
		// judged: the next one reads both sides at once, in any order.
		if p.restarts && !(s.judging() && (strings.HasPrefix(step, "agent> ") || strings.HasPrefix(step, "server> "))) {
			s.restart()
		}
	}
	for _, step := range []string{
		`agent> {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`server< {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`server> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`agent< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
	} {
		if err := s.play(step); err != nil {
			t.Fatalf("%s: at the end: %s\n%v", file, step, err)
		}
	}
}

// A request that is cancelled while its answer is being judged is cancelled for the next
// daemon too: nobody is asked about the answer, and the agent does not get it.
func TestTakenBackBeforeTheDaemonEnds(t *testing.T) {
	s := newStage(t, play{})
	asks := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{}}}`
	s.steps(`judged {«»,"id":1,"method":"tools/call","params":{«modern»,"name":"t"}}`, "server> "+asks, "submit "+asks)
	s.judge.setStays()
	s.steps(`agent> {«»,"method":"notifications/cancelled","params":{"requestId":1}}`)
	if err := s.until("the request is taken back", func() bool {
		r := s.session.state.open[fromAgent]["1"]
		return r != nil && r.cancelled
	}); err != nil {
		t.Fatal(err)
	}
	s.open = nil // it is not judged again
	s.restart()
	s.steps(`return {«»,"method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`cross {«»,"id":2,"method":"ping"}`, `observe call:1 outcome:OUTCOME_OK`)
	if len(s.judge.submits) > 0 {
		t.Errorf("the judge was asked about %s", (<-s.judge.submits).Line)
	}
}

func (s *stage) play(step string) error {
	verb, rest, _ := strings.Cut(shorthand.Replace(step), " ")
	switch verb {
	case "agent>":
		return s.write(fromAgent, rest)
	case "server>":
		return s.write(fromServer, rest)
	case "agent<":
		return s.read(fromAgent, rest)
	case "server<":
		return s.read(fromServer, rest)
	case "cross":
		return s.playAll("agent> "+rest, "server< "+rest)
	case "return":
		return s.playAll("server> "+rest, "agent< "+rest)
	case "judged":
		return s.playAll("agent> "+rest, "submit "+rest, "forward", "server< "+rest)
	case "weighed":
		return s.playAll("server> "+rest, "submit "+rest, "forward", "agent< "+rest)
	case "submit":
		m, err := s.submitted(rest)
		if err != nil {
			return err
		}
		s.open = append(s.open, m)
		return same(string(m.Line), rest)
	case "came":
		m := s.open[len(s.open)-1]
		got := ""
		if m.About > 0 {
			got = fmt.Sprintf("%d %s", s.judge.number(m.About), m.Request)
		}
		return same(got, rest)
	case "cancel":
		n, err := receive(s.judge.cancels)
		if err != nil {
			return err
		}
		if err := s.until("it is judged no more", func() bool {
			return !slices.ContainsFunc(s.session.beingJudged[:], func(w *waiting) bool { return w != nil && w.withdrawn })
		}); err != nil {
			return err
		}
		return same(fmt.Sprint(n), rest)
	case "deliver":
		s.judge.line([]byte(rest))
		return nil
	case "observe", "notice":
		return s.observe(rest, verb == "observe" && !s.how.restarts)
	case "silent":
		select {
		case line := <-s.out[map[string]wire.Side{"agent": fromAgent, "server": fromServer}[rest]]:
			return fmt.Errorf("got %s", line)
		case <-time.After(100 * time.Millisecond):
			return nil
		}
	case "deaf":
		s.judge.setDeaf()
		return nil
	case "heard":
		s.judge.setHeard()
		return nil
	case "opened":
		got, err := receive(s.opened)
		if err != nil {
			return err
		}
		return same(got, rest)
	case "tear":
		s.judge.forget()
		s.torn = true
		s.open = nil // all lines are submitted again
		s.restart()
		return nil
	}
	return s.verdict(verb, rest)
}

// submitted returns the next line that was submitted to the judge; after a tear, in any order.
func (s *stage) submitted(line string) (*submission, error) {
	for i, m := range s.early {
		if same(string(m.Line), line) == nil {
			s.early = slices.Delete(s.early, i, i+1)
			return m, nil
		}
	}
	for {
		m, err := receive(s.judge.submits)
		if err != nil || !s.torn || same(string(m.Line), line) == nil {
			return m, err
		}
		s.early = append(s.early, m)
	}
}

func (s *stage) observe(text string, next bool) error {
	from := s.judge.observations
	if s.how.restarts && strings.Contains(text, "NOT_WRITTEN") {
		return nil // the daemon that has read the cancellation is not the one that gets the verdict
	}
	if strings.Contains(text, "outcome:") {
		from, next = s.judge.outcomes, false
	}
	for {
		got, err := receive(from)
		if err != nil || strings.Contains(got, text) {
			return err
		}
		if next && strings.HasPrefix(got, "refused: ") {
			return fmt.Errorf("got %s", got)
		}
	}
}

func (s *stage) playAll(steps ...string) error {
	for _, step := range steps {
		if err := s.play(step); err != nil {
			return fmt.Errorf("%s\n%w", step, err)
		}
	}
	return nil
}

func (s *stage) verdict(verb, rest string) error {
	at := 0
	if first, after, _ := strings.Cut(rest, " "); first != "" && strings.Trim(first, "0123456789") == "" {
		rest = after
		for at < len(s.open) && fmt.Sprint(s.open[at].n) != first {
			at++
		}
	}
	if at >= len(s.open) {
		return fmt.Errorf("nothing waits for a verdict")
	}
	m := s.open[at]
	v := gate.Verdict{Seq: m.Seq, Move: gate.Forward, Line: m.Line}
	switch verb {
	case "pending", "asking":
		v.Move, v.Line = gate.Ask, nil
		if verb == "pending" {
			v.Approval = fmt.Sprintf("A-%d", m.n)
		}
		s.judge.say(m, v)
		return s.until("the line is held", func() bool { return s.session.state.waiting[m.Seq] != nil })
	case "deny":
		v = gate.Verdict{Seq: m.Seq, Move: gate.Deny}
		if rest != "" {
			v.Answer = []byte(rest)
		}
	case "replace", "notify", "forward", "inspect": // notify: forward with a notice for the agent
		if rest != "" {
			v.Line, v.Replaced = []byte(rest), true
		}
		if verb == "notify" || verb == "inspect" && rest != "" {
			v.Notice = "changed"
		}
		v.Inspect = verb == "inspect"
	default:
		return fmt.Errorf("no such step: %s", verb)
	}
	s.open = slices.Delete(s.open, at, at+1)
	s.judge.say(m, v)
	return nil
}

func (s *stage) write(side wire.Side, line string) error {
	if s.how.shared && side == fromServer {
		s.deliver(line)
		return nil
	}
	s.lines[side] <- line + s.how.behind + "\n"
	return nil
}

func (s *stage) read(side wire.Side, want string) error {
	got, err := receive(s.out[side])
	if err != nil {
		return err
	}
	return same(got, want)
}

// shorthand stands for what a text line can't hold, for what would make lines long, and for
// what starts every message.
var shorthand = strings.NewReplacer(`«LF»`, "\n", `«CR»`, "\r", `«FF»`, "\xff", `{«»`, `{"jsonrpc":"2.0"`,
	`«modern»`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)

func same(got, want string) error {
	if strings.TrimRight(got, " ") != strings.TrimRight(want, " ") {
		return fmt.Errorf(" got %s\nwant %s", got, want)
	}
	return nil
}

func receive[T any](c <-chan T) (T, error) {
	select {
	case v := <-c:
		return v, nil
	case <-time.After(testTimeout):
		var none T
		return none, fmt.Errorf("nothing came within %v", testTimeout)
	}
}
