package hostile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// ours are the messages that a gate may send by itself, to either side.
var ours = []string{
	"ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover",
	"notifications/cancelled", "notifications/message",
}

// judge compares what has arrived at both ends with what the case expects.
func (p *play) judge() {
	server, serverTail := p.arrived(p.shim.Server.Inbox, p.mark[0])
	agent, agentTail := p.arrived(p.shim.Agent, p.mark[1])
	p.checkNever("server", p.Expect.NotServer, server, serverTail)
	p.checkNever("agent", p.Expect.NotAgent, agent, agentTail)
	for _, id := range p.Expect.AgentErrorIDs {
		if n := errorsFor(agent, id); n != 1 {
			p.bad("the agent got %d errors for its request %s, want one", n, id)
		}
	}
	there, back := server, agent
	thereTail, backTail := serverTail, agentTail
	if p.Direction == fromServer {
		there, back, thereTail, backTail = agent, server, agentTail, serverTail
	}
	if len(backTail) > 0 {
		p.bad("half a line came back: %s", brief(backTail))
	}
	if len(thereTail) > 0 && p.Expect.Forwarded != "any" {
		p.bad("half a line crossed: %s", brief(thereTail))
	}
	wanted := p.wanted()
	p.checkCrossed(there, wanted)
	p.checkBack(back, p.mayReply(len(wanted)))
}

// arrived returns what came after the first lines, without what is expected
// anyway.
func (p *play) arrived(b *rig.Inbox, from int) (lines [][]byte, tail []byte) {
	lines, tail = b.Since(from)
	return slices.DeleteFunc(lines, func(line []byte) bool { return p.expected[string(line)] }), tail
}

func (p *play) checkNever(where string, never []string, lines [][]byte, tail []byte) {
	for _, text := range never {
		for _, line := range append(slices.Clone(lines), tail) {
			if bytes.Contains(line, []byte(text)) {
				p.bad("%q reached the %s: %s", text, where, brief(line))
			}
		}
	}
}

// wanted returns the lines that must cross.
func (p *play) wanted() [][]byte {
	sent := linesOf(p.raw)
	var wanted [][]byte
	switch {
	case p.Expect.Lines != nil:
		for _, i := range p.Expect.Lines {
			wanted = append(wanted, sent[i])
		}
	case p.Expect.Forwarded == true || p.Expect.Forwarded == "identical":
		for _, line := range sent {
			if !blank(line) {
				wanted = append(wanted, line)
			}
		}
	}
	return wanted
}

func blank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

// checkCrossed looks at every line that arrived where the bytes were sent to.
func (p *play) checkCrossed(there, wanted [][]byte) {
	sent := map[string]bool{}
	for _, line := range linesOf(p.raw) {
		sent[strings.TrimRight(string(line), "\r\n")] = true
	}
	for _, line := range there {
		next := slices.IndexFunc(wanted, func(want []byte) bool { return p.same(line, want) })
		switch {
		case next == 0 || next > 0 && p.front != nil:
			wanted = slices.Delete(wanted, next, next+1)
		case blank(line) && p.Expect.Forwarded != "identical" && p.Expect.Forwarded != false:
		case sent[strings.TrimRight(string(line), "\r\n")]:
			if p.Expect.Forwarded != "any" {
				p.bad("it crossed: %s", brief(line))
			}
		default:
			p.checkOwn(line)
		}
	}
	for _, line := range wanted {
		p.bad("it did not cross as it was: %s", brief(line))
	}
}

// same reports whether a line is the one that was sent.
func (p *play) same(got, sent []byte) bool {
	if p.Expect.Forwarded == "identical" {
		return bytes.Equal(got, sent)
	}
	return bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(sent))
}

// checkOwn looks at a line that nobody sent: the gate's own. It must be one
// message, and one that a gate may send: to the agent that is also the answer
// to a request that is open.
func (p *play) checkOwn(line []byte) {
	m, err := readMessage(line)
	switch {
	case err != nil && p.Expect.Forwarded == "any" && p.Profile == "development":
	case err != nil:
		p.bad("a line crossed that is no message (%v): %s", err, brief(line))
	case m.has("method") && slices.Contains(ours, m.text("method")):
	case p.Direction == fromServer && !m.has("method") && p.open[m.raw("id")]:
	case p.Direction == fromServer && m.has("error") && (!m.has("id") || m.raw("id") == "null"):
	default:
		p.bad("a line crossed that nobody sent: %s", brief(line))
	}
}

// mayReply returns the word for what may come back to the sender.
func (p *play) mayReply(wanted int) string {
	switch {
	case p.Expect.Reply != "":
		return p.Expect.Reply
	case wanted > 0 && wanted == len(linesOf(p.raw)):
		return "none"
	}
	return "maybe"
}

// checkBack looks at every line that came back to whoever sent the bytes.
func (p *play) checkBack(back [][]byte, reply string) {
	refusals := 0
	for _, line := range back {
		m, err := readMessage(line)
		switch {
		case err != nil:
			p.bad("the sender got a line that is no message (%v): %s", err, brief(line))
		case m.has("method"):
			if !slices.Contains(ours, m.text("method")) {
				p.bad("the sender got a message that nobody sent: %s", brief(line))
			}
		case (m.refusedTool() || m.declined()) && reply != "none" && p.Expect.ErrorCode == nil && m.raw("id") == p.Expect.ReplyID:
			refusals++
		case !m.has("error"):
			p.bad("the sender got an answer that nobody gave: %s", brief(line))
		default:
			if why := p.refusal(m, reply); why != "" {
				p.bad("%s: %s", why, brief(line))
			}
			if p.Expect.ReplyID != "" && m.raw("id") == p.Expect.ReplyID {
				refusals++
			}
		}
	}
	if reply == "error" && refusals != 1 {
		p.bad("the sender got %d refusals of request %s, want one", refusals, p.Expect.ReplyID)
	}
}

// refusal says what is wrong with an error that came back, empty for nothing.
func (p *play) refusal(m *message, reply string) string {
	f, err := m.fault()
	id := m.raw("id")
	if id == "" {
		id = "null"
	}
	switch {
	case err != nil:
		return err.Error()
	case slices.Contains(p.Expect.AgentErrorIDs, id):
		return ""
	case reply == "none":
		return "the sender got an error and should get none"
	case p.Expect.ReplyID == id:
		if codes := p.Expect.ErrorCode; codes != nil && !slices.Contains(codes, f.code) {
			return fmt.Sprintf("the error has code %d, want one of %v", f.code, codes)
		}
		return ""
	case id == "null", p.Expect.ReplyID == "" && reply == "maybe":
		return ""
	}
	return "the error is for another request"
}

func errorsFor(lines [][]byte, id string) int {
	n := 0
	for _, line := range lines {
		if m, err := readMessage(line); err == nil && m.has("error") && m.raw("id") == id {
			n++
		}
	}
	return n
}

func brief(line []byte) string {
	if len(line) > 160 {
		return fmt.Sprintf("%q… (%d bytes)", line[:160], len(line))
	}
	return fmt.Sprintf("%q", line)
}
