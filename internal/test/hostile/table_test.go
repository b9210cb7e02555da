package hostile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables are lists of calls of these two, one for each direction. A text
// without a line feed at its end gets one. Words that begin with mark- must not
// arrive when the message is refused.
func agent(class, id, send string, expect ...option) *Case {
	return newCase("a", class, id, fromAgent, send, expect)
}

func server(class, id, send string, expect ...option) *Case {
	return newCase("s", class, id, fromServer, send, expect)
}

// option is one thing that a case says beyond its bytes.
type option func(*Case)

var mark = regexp.MustCompile(`mark-[a-z0-9]+`)

func newCase(who, class, id, direction, send string, options []option) *Case {
	group, _, _ := strings.Cut(class, ".")
	c := &Case{ID: who + "-" + group + "-" + id, Class: class, Direction: direction, Profile: "production", Tier: 1}
	c.Send = send
	for _, o := range options {
		o(c)
	}
	text := c.Send
	if c.Parts == nil {
		if !strings.HasSuffix(text, "\n") && c.Finish == "" {
			text += "\n"
		}
		c.Send = encode(text)
	} else {
		c.Send = ""
	}
	if c.Expect.Forwarded == false && c.Expect.Lines == nil {
		marks := mark.FindAllString(text, -1)
		slices.Sort(marks)
		if marks = slices.Compact(marks); direction == fromAgent {
			c.Expect.NotServer = marks
		} else {
			c.Expect.NotAgent = marks
		}
	}
	return c
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// What becomes of the bytes.

// identical: every line crosses byte for byte.
func identical(c *Case) { c.Expect.Forwarded = "identical" }

// crosses: every line crosses, line ends and outer blanks apart.
func crosses(c *Case) { c.Expect.Forwarded = true }

// survives: whatever becomes of it, the connection does.
func survives(c *Case) { c.Expect.Forwarded = "any" }

// dropped: nothing crosses; the sender may be told.
func dropped(c *Case) { c.Expect.Forwarded = false }

// silent: nothing crosses, and nobody is told.
func silent(c *Case) { c.Expect.Forwarded, c.Expect.Reply = false, "none" }

// refused: nothing crosses, and the request with this raw id gets exactly one
// error, with one of the codes if there are any.
func refused(id string, codes ...int) option {
	return func(c *Case) {
		c.Expect.Forwarded, c.Expect.Reply, c.Expect.ReplyID, c.Expect.ErrorCode = false, "error", id, codes
	}
}

// lost: nothing crosses, and each of these requests of the agent, which are
// open, gets exactly one error.
func lost(ids ...string) option {
	return func(c *Case) { c.Expect.Forwarded, c.Expect.AgentErrorIDs = false, ids }
}

// onlyLines: the lines with these numbers cross, from 0 on, and no others.
func onlyLines(numbers ...int) option {
	return func(c *Case) {
		if c.Expect.Forwarded = false; len(numbers) > 0 {
			c.Expect.Lines = numbers
		}
	}
}

// What goes before, and how it is sent.

// asked: the agent has sent these requests before.
func asked(requests ...string) option { return before("agent", requests) }

// served: the server has sent these before.
func served(messages ...string) option { return before("server", messages) }

func before(from string, messages []string) option {
	return func(c *Case) {
		for _, m := range messages {
			c.Setup = append(c.Setup, Step{From: from, Send: encode(m + "\n")})
		}
	}
}

// then: the server, or the agent, sends these good messages after.
func then(from string, messages ...string) option {
	return func(c *Case) {
		for _, m := range messages {
			c.After = append(c.After, Step{From: from, Send: encode(m + "\n")})
		}
	}
}

func modern(c *Case)      { c.Era = "modern" }
func development(c *Case) { c.Profile = "development" }
func tier2(c *Case)       { c.Tier = 2 }
func needsDeny(c *Case)   { c.Needs = []string{"deny_tool"} }
func mayGiveUp(c *Case)   { c.Expect.Liveness = "optional" }

// hangsUp: the agent hangs up after the bytes; dies: the server does.
func hangsUp(c *Case) { c.Finish = "eof" }
func dies(c *Case)    { c.Finish = "exit" }

// inChunks: so many bytes in a write, with a pause after each.
func inChunks(size, delayMS int) option {
	return func(c *Case) { c.Chunk, c.DelayMS = size, delayMS }
}

// within: the shim needs no more memory than that.
func within(megabytes int64) option { return func(c *Case) { c.Expect.MaxRSSMB = megabytes } }

// parts replaces the text: head, unit so many times, tail.
func parts(head, unit string, count int, tail string) option {
	return func(c *Case) {
		c.Parts = []Part{{Bytes: encode(head)}, {Repeat: encode(unit), Count: count}, {Bytes: encode(tail)}}
	}
}

// note says what no name can.
func note(text string) option { return func(c *Case) { c.Expect.Notes = text } }

// Messages that stand in many cases.

// call is a request to call the tool echo with arguments, as raw members.
func call(id, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"echo","arguments":{%s}}}`, id, arguments)
}

// mcall is call in the modern era.
func mcall(id, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s,"name":"echo","arguments":{%s}}}`, id, meta, arguments)
}

// request is a request with raw params.
func request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

// answer is a result with a text.
func answer(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

// tables are all cases of our own.
func tables() []*Case {
	return slices.Concat(goodCases(), textCases(), framingCases(), nameCases(), envelopeCases(), idCases(), policyCases(),
		serverCases(), catalogueCases(), modernCases(), longCases())
}

// TestCaseFile keeps testdata/cases.jsonl what the tables say.
func TestCaseFile(t *testing.T) {
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	ids := map[string]bool{}
	classes := map[string]int{}
	for _, c := range tables() {
		if ids[c.ID] {
			t.Errorf("two cases are called %s", c.ID)
		}
		ids[c.ID] = true
		classes[c.Class]++
		if err := c.check(); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		if err := encoder.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d cases: %v", len(ids), classes)
	if len(ids) < 150 {
		t.Errorf("%d cases, want 150 at least", len(ids))
	}
	if *update {
		if err := os.WriteFile(ownCases, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(ownCases)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the tables say; write it anew with\n\tgo test ./internal/test/hostile -run TestCaseFile -update", ownCases)
	}
}
