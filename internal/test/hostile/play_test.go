package hostile

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/behind"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

const (
	// promptly is how long a good message may take.
	promptly = 20 * time.Second

	// lingering is how long a shim whose server has ended is given to end before its agent hangs up.
	lingering = 10 * time.Second

	// late is waited for lines that come after all that could be waited for.
	late = 20 * time.Millisecond
)

// play is one case on its way through a shim.
type play struct {
	*Case
	shim *rig.Shim
	raw  []byte // what the case sends
	good int    // round trips so far

	open     map[string]bool // raw ids of good requests of the agent
	expected map[string]bool // good lines, which are no concern of the verdict
	mark     [2]int          // lines that were there before raw: at the server, at the agent
	front    *behind.Front   // of a server behind an address, where messages may overtake each other; else nil

	problems []string
}

func (p *play) bad(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// run plays c and returns what is wrong. front is in front of a server behind an address; else it is nil.
func run(t *testing.T, fixture *rig.Fixture, c *Case, front *behind.Front, o rig.Options) []string {
	p := &play{Case: c, open: map[string]bool{}, expected: map[string]bool{}, front: front}
	o.Profile = c.Profile
	// The race detector multiplies what a process needs.
	o.Shipped = o.Shipped || c.Expect.MaxRSSMB > 0
	p.raw, _ = c.bytes() // check has seen to it
	p.shim = fixture.Shim(t, o)
	if err := p.begin(); err != nil {
		return []string{fmt.Sprintf("before the bytes under test: %v\nthe shim said: %s", err, p.shim.Stderr())}
	}
	p.mark = [2]int{p.shim.Server.Len(), p.shim.Agent.Len()}
	var copied int64
	if p.front != nil {
		copied = p.front.Copied()
	}
	p.send()
	if p.front != nil && p.Direction == fromServer {
		p.awaitCopy(copied)
	}
	if c.Finish != "" {
		p.finish()
	} else {
		p.goOn()
	}
	if o.Instead == nil { // else nobody refuses anything
		p.awaitRefusal()
	}
	if p.front != nil {
		p.awaitRest()
	}
	time.Sleep(late)
	p.checkMemory()
	p.judge()
	if len(p.problems) > 0 {
		p.bad("the shim said: %s", p.shim.Stderr())
	}
	return p.problems
}

// begin shakes hands, checks that good messages cross, and plays the setup.
func (p *play) begin() error {
	if err := p.shim.Join(); err != nil {
		return err
	}
	if err := p.handshake(); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if err := p.roundTrip(); err != nil {
		return err
	}
	for i := range p.Setup {
		if err := p.step(&p.Setup[i]); err != nil {
			return fmt.Errorf("setup %d: %w", i, err)
		}
	}
	return nil
}

func (p *play) modern() bool { return p.Era == "modern" }

// meta opens the params of a modern request.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"agent","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}}`

const tools = `"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"read_file","inputSchema":{"type":"object"}},{"name":"forbidden_tool","inputSchema":{"type":"object"}}]`

// handshake is what each era begins with. What comes back may be edited on the
// way, so only the ids are compared.
func (p *play) handshake() error {
	if p.modern() {
		if err := p.exchange(`{"jsonrpc":"2.0","id":"begin-1","method":"server/discover","params":{`+meta+`}}`,
			`{"jsonrpc":"2.0","id":"begin-1","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}}`, false); err != nil {
			return err
		}
		return p.exchange(`{"jsonrpc":"2.0","id":"begin-2","method":"tools/list","params":{`+meta+`}}`,
			`{"jsonrpc":"2.0","id":"begin-2","result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",`+tools+`}}`, false)
	}
	if err := p.exchange(`{"jsonrpc":"2.0","id":"begin-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"agent","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":"begin-1","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}`, false); err != nil {
		return err
	}
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	from := p.shim.Server.Len()
	if err := p.shim.Send([]byte(initialized + "\n")); err != nil {
		return err
	}
	if _, err := p.shim.Server.Await(from, promptly, rig.Line(initialized)); err != nil {
		return err
	}
	return p.exchange(`{"jsonrpc":"2.0","id":"begin-2","method":"tools/list"}`, `{"jsonrpc":"2.0","id":"begin-2","result":{`+tools+`}}`, false)
}

// exchange sends a request as the agent and answers it as the server, and waits
// for each to arrive. Unless exact, only the id has to be right.
func (p *play) exchange(request, answer string, exact bool) error {
	match := func(sent string) func([]byte) bool {
		if exact {
			return rig.Line(sent)
		}
		good, _ := readMessage([]byte(sent))
		return func(line []byte) bool {
			m, err := readMessage(line)
			return err == nil && m.raw("id") == good.raw("id")
		}
	}
	good, _ := readMessage([]byte(request))
	p.open[good.raw("id")] = true
	from := p.shim.Server.Len()
	if err := p.shim.Send([]byte(request + "\n")); err != nil {
		return fmt.Errorf("send %.80s: %w", request, err)
	}
	if _, err := p.shim.Server.Await(from, promptly, match(request)); err != nil {
		return fmt.Errorf("the server waits for %.80s: %w", request, err)
	}
	from = p.shim.Agent.Len()
	if err := p.shim.Server.Send([]byte(answer + "\n")); err != nil {
		return fmt.Errorf("send %.80s: %w", answer, err)
	}
	if _, err := p.shim.Agent.Await(from, promptly, match(answer)); err != nil {
		return fmt.Errorf("the agent waits for %.80s: %w", answer, err)
	}
	return nil
}

// roundTrip is a good call, and its answer. Pipes keep the order: when the call
// has arrived, so has, or never will, whatever the agent sent before it; and
// the answer says the same of the server.
func (p *play) roundTrip() error {
	p.good++
	params, kind := "", ""
	if p.modern() {
		params, kind = meta+",", `"resultType":"complete",`
	}
	request := fmt.Sprintf(`{"jsonrpc":"2.0","id":"good-%d","method":"tools/call","params":{%s"name":"echo","arguments":{"n":%[1]d}}}`, p.good, params)
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":"good-%d","result":{%s"content":[{"type":"text","text":"%[1]d"}]}}`, p.good, kind)
	p.expected[request+"\n"], p.expected[answer+"\n"] = true, true
	return p.exchange(request, answer, true)
}

// step plays a good message, which must cross as it is.
func (p *play) step(s *Step) error {
	text, err := s.bytes()
	if err != nil {
		return err
	}
	write, arrives := p.shim.Send, func() *rig.Inbox { return p.shim.Server.Inbox }
	if s.From == "server" {
		write, arrives = p.shim.Server.Send, func() *rig.Inbox { return p.shim.Agent }
	}
	from := arrives().Len()
	if err := write(text); err != nil {
		return err
	}
	for _, line := range linesOf(text) {
		if m, err := readMessage(line); err == nil && s.From == "agent" && m.request() {
			p.open[m.raw("id")] = true
		}
		if s.Unchecked {
			continue
		}
		same := func(got []byte) bool { return bytes.Equal(got, line) }
		if _, err := arrives().Await(from, promptly, same); err != nil {
			return fmt.Errorf("%.120q does not cross as it is: %w", line, err)
		}
	}
	return nil
}

// send writes the bytes under test.
func (p *play) send() {
	write := p.shim.Send
	if p.Direction == fromServer {
		write = p.shim.Server.Send
	}
	size := p.Chunk
	if size <= 0 {
		size = 64 << 10
	}
	for rest := p.raw; len(rest) > 0; {
		n := min(size, len(rest))
		if err := write(rest[:n]); err != nil {
			if p.Finish == "" && p.Expect.Liveness != "optional" {
				p.bad("the shim does not read any more: %v", err)
			}
			return
		}
		if rest = rest[n:]; p.DelayMS > 0 {
			time.Sleep(time.Duration(p.DelayMS) * time.Millisecond)
		}
	}
}

// awaitCopy waits until the lines under test have been given to responses: what is none would end the
// request on whose response it is. from is what had been copied before them.
func (p *play) awaitCopy(from int64) {
	until := from + int64(bytes.LastIndexByte(p.raw, '\n')+1)
	for end := time.Now().Add(promptly); p.front.Copied() < until && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the server may have ended
	}
}

// goOn checks that nothing has been hurt.
func (p *play) goOn() {
	trip := func() {
		if err := p.roundTrip(); err != nil && p.Expect.Liveness != "optional" {
			p.bad("after the bytes under test: %v", err)
		}
	}
	if len(p.After) > 0 {
		trip() // what was sent has been dealt with before what follows
	}
	for i := range p.After {
		text, _ := p.After[i].bytes()
		for _, line := range linesOf(text) {
			p.expected[string(line)] = true
		}
		if err := p.step(&p.After[i]); err != nil {
			p.bad("after %d: %v", i, err)
			break
		}
	}
	trip()
}

// finish ends the side that the case wants to end, and waits for the shim.
func (p *play) finish() {
	if p.Finish == "exit" {
		_ = p.shim.Server.Exit(0)
		if p.front != nil { // it stays for as long as its agent
			p.awaitRest()
			p.shim.HangUp()
		}
		// It may stay for the agent to hang up, but must have answered by then.
		if _, ok := p.shim.Wait(lingering); !ok {
			p.shim.HangUp()
		}
		return
	}
	p.shim.HangUp()
	// The daemon alone waits eight seconds for an answer that does not come.
	if _, ok := p.shim.Wait(rig.Timeout); !ok {
		p.bad("the shim still runs %v after its standard input was closed", rig.Timeout)
	}
}

// awaitRefusal waits for the refusal that the sender must get. What else goes to a server
// does not wait for it, so nothing that came before tells that it has been written.
func (p *play) awaitRefusal() {
	if p.Expect.Reply != "error" {
		return
	}
	sender, from := p.shim.Agent, p.mark[1]
	if p.Direction == fromServer {
		sender, from = p.shim.Server.Inbox, p.mark[0]
	}
	_, _ = sender.Await(from, promptly, func(line []byte) bool { // judge says what is missing
		m, err := readMessage(line)
		return err == nil && !m.has("method") && m.raw("id") == p.Expect.ReplyID
	})
}

// awaitRest waits for what must arrive, which nothing that follows tells of: a server behind an address
// gets each message in a request of its own. judge says what is missing.
func (p *play) awaitRest() {
	there, from := p.shim.Server.Inbox, p.mark[0]
	if p.Direction == fromServer {
		there, from = p.shim.Agent, p.mark[1]
	}
	for _, want := range p.wanted() {
		_, _ = there.Await(from, promptly, func(line []byte) bool { return p.same(line, want) })
	}
	for _, id := range p.Expect.AgentErrorIDs {
		_, _ = p.shim.Agent.Await(p.mark[1], promptly, func(line []byte) bool { return errorsFor([][]byte{line}, id) == 1 })
	}
}

func (p *play) checkMemory() {
	if p.Expect.MaxRSSMB == 0 || p.Finish != "" {
		return
	}
	peak, err := p.shim.PeakMemory()
	if err == nil && peak>>20 > p.Expect.MaxRSSMB {
		p.bad("the shim needed %d MB of memory, of %d", peak>>20, p.Expect.MaxRSSMB)
	}
}
