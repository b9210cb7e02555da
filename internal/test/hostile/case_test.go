package hostile

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Case is one line of a case file: bytes for one end of a shim, and what may
// come out at the other. Bytes are in base64.
type Case struct {
	ID        string   `json:"id"`
	Class     string   `json:"class"`     // the group it belongs to
	Direction string   `json:"direction"` // agent_to_server or server_to_agent: who sends the bytes
	Profile   string   `json:"profile"`   // of the shim
	Tier      int      `json:"tier"`
	Era       string   `json:"era,omitempty"`   // modern: the handshake is that of MCP 2026-07-28
	Needs     []string `json:"needs,omitempty"` // what the deployment must have, see the variable have
	Setup     []Step   `json:"setup,omitempty"`
	Send      string   `json:"send,omitempty"`     // the bytes under test: any number of lines, line feeds included
	Parts     []Part   `json:"parts,omitempty"`    // instead of Send
	Chunk     int      `json:"chunk,omitempty"`    // how many bytes are written at once
	DelayMS   int      `json:"delay_ms,omitempty"` // pause after each write
	Finish    string   `json:"finish,omitempty"`   // eof: the agent hangs up after the bytes; exit: the server does
	After     []Step   `json:"after,omitempty"`
	Expect    Expect   `json:"expect"`
}

// Step is one good line, or more, that go before the bytes under test or after
// them. They must cross as they are, unless they are not to be checked.
type Step struct {
	From      string `json:"from"` // agent or server
	Send      string `json:"send"`
	Unchecked bool   `json:"no_forward_check,omitempty"`
}

// Part is a piece of bytes too many to be written out.
type Part struct {
	Bytes  string `json:"b64,omitempty"`
	Repeat string `json:"repeat,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// Expect says what must become of the bytes.
type Expect struct {
	// Forwarded is "identical" when every line must cross as it is, true when
	// line ends and outer blanks may be lost, false when no line may cross, and
	// "any" when both are sound.
	Forwarded any `json:"forwarded"`

	// Lines are the numbers of the lines that must cross, from 0 on. The others
	// must not.
	Lines []int `json:"lines,omitempty"`

	// Reply is error when the sender must get exactly one refusal of the request
	// ReplyID (raw), with a code of ErrorCode if there is one; none when nothing
	// may come back to it; maybe when it may. Left out it is none for messages
	// that cross, else maybe.
	Reply     string `json:"reply,omitempty"`
	ReplyID   string `json:"reply_id,omitempty"`
	ErrorCode []int  `json:"error_code,omitempty"`

	// NotServer and NotAgent are texts that may not arrive there at all.
	NotServer []string `json:"must_not_reach_server,omitempty"`
	NotAgent  []string `json:"must_not_reach_agent,omitempty"`

	// AgentErrorIDs are raw ids of open requests of which the agent must get
	// exactly one error each.
	AgentErrorIDs []string `json:"agent_error_ids,omitempty"`

	Liveness string `json:"liveness,omitempty"`   // optional: the shim may give up
	MaxRSSMB int64  `json:"max_rss_mb,omitempty"` // of the shim, at its peak
	Notes    string `json:"notes,omitempty"`
}

const (
	fromAgent  = "agent_to_server"
	fromServer = "server_to_agent"
)

// readCases reads a case file. A member that the format does not have is an
// error: it would be an expectation that nobody checks.
func readCases(t *testing.T, path string) []*Case {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []*Case
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		c := &Case{}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(c); err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		if err := c.check(); err != nil {
			t.Fatalf("%s:%d: %s: %v", path, n, c.ID, err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// check finds what would make a case mean something else than its writer meant.
func (c *Case) check() error {
	oneOf := func(what, got string, of ...string) error {
		if !slices.Contains(of, got) {
			return fmt.Errorf("%s is %q; it can be %s", what, got, strings.Join(of, ", "))
		}
		return nil
	}
	forwarded, ok := c.Expect.Forwarded.(bool)
	if !ok {
		text, _ := c.Expect.Forwarded.(string)
		if err := oneOf("expect.forwarded", text, "identical", "any"); err != nil {
			return err
		}
	}
	_, err := c.bytes()
	for _, e := range []error{
		err,
		oneOf("direction", c.Direction, fromAgent, fromServer),
		oneOf("profile", c.Profile, "production", "development"),
		oneOf("era", c.Era, "", "legacy", "modern"),
		oneOf("finish", c.Finish, "", "eof", "exit"),
		oneOf("expect.reply", c.Expect.Reply, "", "error", "none", "maybe"),
		oneOf("expect.liveness", c.Expect.Liveness, "", "required", "optional"),
	} {
		if e != nil {
			return e
		}
	}
	if c.Expect.Reply == "error" && (c.Expect.ReplyID == "" || forwarded) {
		return fmt.Errorf("an error is expected for id %q of a message that is forwarded: %v", c.Expect.ReplyID, forwarded)
	}
	return nil
}

// bytes returns what is sent.
func (c *Case) bytes() ([]byte, error) {
	if c.Parts == nil {
		return base64.StdEncoding.DecodeString(c.Send)
	}
	var all []byte
	for _, p := range c.Parts {
		once, err := base64.StdEncoding.DecodeString(p.Bytes)
		if err != nil {
			return nil, err
		}
		unit, err := base64.StdEncoding.DecodeString(p.Repeat)
		if err != nil {
			return nil, err
		}
		all = append(append(all, once...), bytes.Repeat(unit, p.Count)...)
	}
	return all, nil
}

func (s *Step) bytes() ([]byte, error) { return base64.StdEncoding.DecodeString(s.Send) }

// linesOf cuts text after each line feed.
func linesOf(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if last := len(lines) - 1; len(lines[last]) == 0 {
		lines = lines[:last]
	}
	return lines
}
