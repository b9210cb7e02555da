package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// F-023 and EC-STDIO-033: in development the record and the log say what production would have
// done, and the message is forwarded unchanged. In production the same messages are not
// forwarded.
func TestProfiles(t *testing.T) {
	const (
		list = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}, {"name":"b"}]}}`
		asks = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}}`
		odd  = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"odd"}}`
		ask  = `{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	)
	fromServer := func(line, answers string) Submission {
		return Submission{Seq: 1, Side: wire.FromServer, Line: []byte(line), Answers: answers}
	}
	call := Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)}
	for _, tt := range []struct {
		name   string
		ruling Ruling
		hidden string
		m      Submission
		would  string
		auto   bool
		move   Move // in production
	}{
		{name: "a rule denies", ruling: Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule, Reason: "no"}, m: call, would: "WOULD_BLOCK", move: Deny},
		{name: "a policy forbids", ruling: Ruling{Move: Deny, Gate: "permit", Code: mcp.CodePolicy, Reason: "no", Policies: []string{"p"}}, m: call, would: "WOULD_BLOCK", move: Deny},
		{name: "a person is asked", ruling: Ruling{Move: Ask, Gate: "rule", Reason: "hm", Workflow: "ops"}, m: call, would: "WOULD_ASK", auto: true, move: Ask},
		{name: "nobody could be asked", ruling: Ruling{Move: Ask, Gate: "rule", Reason: "hm", Unable: "nobody is there"}, m: call, would: "WOULD_ASK", auto: true, move: Deny},
		{name: "hidden", ruling: Ruling{Move: Deny, Gate: "visible", Hidden: true, Code: mcp.CodeInvalidParams, Reason: "no"}, m: call, would: "WOULD_HIDE", move: Deny},
		{name: "a list", ruling: Ruling{Move: Forward}, hidden: "b", m: fromServer(list, "tools/list"), would: "WOULD_HIDE", move: Forward},
		{name: "an ask in a result", ruling: Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule, Reason: "no"}, m: fromServer(asks, "tools/call"), would: "WOULD_BLOCK", move: Deny},
		{name: "a result nobody knows", ruling: Ruling{Move: Forward}, m: fromServer(odd, "tools/call"), would: "WOULD_BLOCK", move: Deny},
		{name: "what a server asks", ruling: Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule, Reason: "no"}, m: fromServer(ask, ""), would: "WOULD_BLOCK", move: Deny},
		{name: "nothing", ruling: Ruling{Move: Forward, Gate: "rule"}, m: call, move: Forward},
		{name: "a whole list", ruling: Ruling{Move: Forward}, m: fromServer(list, "tools/list"), move: Forward},
	} {
		for _, profile := range []Profile{Development, Production} {
			t.Run(tt.name+" in "+string(profile), func(t *testing.T) {
				var log bytes.Buffer
				h := newFixture()
				h.gate.Logger = slog.New(slog.NewJSONHandler(&log, nil))
				h.profile, h.ruling, h.hidden = profile, tt.ruling, map[string]bool{tt.hidden: tt.hidden != ""}
				a := h.gate.Attach(context.Background(), shimX, nil)
				defer a.Close(true)
				verdicts := collect(a)
				a.Submit(tt.m)
				v := <-verdicts
				r := h.records[0]
				if r.Profile != string(profile) {
					t.Errorf("recorded under the profile %q", r.Profile)
				}
				if profile == Production {
					if v.Move != tt.move || r.Would != "" || r.Forwarded || r.Auto || strings.Contains(log.String(), "WOULD_") {
						t.Errorf("got %v, want %v; record %+v, log %s", v.Move, tt.move, r, log.String())
					}
					return
				}
				if v.Move != Forward || !bytes.Equal(v.Line, tt.m.Line) || v.Replaced {
					t.Errorf("got %v %s", v.Move, v.Line)
				}
				if r.Would != tt.would || r.Forwarded != (tt.would != "") || r.Auto != tt.auto || r.Verdict != "forward" || h.asked > 0 {
					t.Errorf("record %+v, %d asked", r, h.asked)
				}
				logged(t, log.String(), tt.would, tt.ruling.Reason)
			})
		}
	}
}

// logged wants one line that says what would have been done, and none if nothing would.
func logged(t *testing.T, log, would, reason string) {
	t.Helper()
	if would == "" {
		if log != "" {
			t.Errorf("logged %s", log)
		}
		return
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(log), &line); err != nil || line["level"] != "WARN" || line["governance_decision"] != would ||
		line["forwarded"] != true || line["server_id"] != "files" || line["profile"] != "development" || !strings.Contains(line["policy_reason"].(string), reason) {
		t.Errorf("logged %s: %v", log, err)
	}
}

// Only decisions are softened. A line that is ambiguous, goes the wrong way or names nothing
// is refused under either profile.
func TestSyntaxIsEnforcedInDevelopment(t *testing.T) {
	for name, m := range map[string]Submission{
		"no JSON":                       {Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"`)},
		"a member twice":                {Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"x"}}`)},
		"a batch":                       {Side: wire.FromAgent, Line: []byte(`[` + aCall + `]`)},
		"no version":                    {Side: wire.FromAgent, Line: []byte(`{"id":1,"method":"tools/call","params":{"name":"x"}}`)},
		"another version":               {Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"x"}}`)},
		"an id that is none":            {Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"x"}}`)},
		"a call as a notification":      {Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}`)},
		"a call of nothing":             {Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)},
		"a name that is not seen":       {Side: wire.FromAgent, Line: []byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\u200b\"}}")},
		"a modern server asks":          {Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)},
		"a list that can't be read":     {Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":"none"}}`), Answers: "tools/list"},
		"a result that can't be read":   {Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`), Answers: "tools/call"},
		"a result and an error at once": {Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`), Answers: "tools/call"},
	} {
		for _, profile := range []Profile{Development, Production} {
			h := newFixture()
			h.profile = profile
			a := h.gate.Attach(context.Background(), shimX, nil)
			verdicts := collect(a)
			m.Seq = 1
			a.Submit(m)
			if v := <-verdicts; v.Move != Deny {
				t.Errorf("%s in %s: got %v", name, profile, v.Move)
			}
			if r := h.records[0]; r.Verdict != "deny" || r.Would != "" || r.Forwarded {
				t.Errorf("%s in %s: recorded %+v", name, profile, r)
			}
			a.Close(true)
		}
	}
}

// F-024: each entry of the record says under which profile it was written.
func TestEveryRecordNamesTheProfile(t *testing.T) {
	h := newFixture()
	h.profile = Development
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	a.RecordOutcome(context.Background(), 1, "ok")
	a.RecordOutcome(context.Background(), 99, "lost")
	a.RecordMessage(context.Background(), wire.FromAgent, "initialize", []byte(`{}`))
	a.Refused(context.Background(), wire.FromServer, "not JSON", []byte("x"))
	if len(h.records) != 5 {
		t.Fatalf("%d records", len(h.records))
	}
	for _, r := range h.records {
		if r.Profile != "development" {
			t.Errorf("%s: %q", r.Kind, r.Profile)
		}
	}
}
