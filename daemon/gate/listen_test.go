package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Only the refused resources are removed from a subscription.
func TestListen(t *testing.T) {
	line := func(notifications string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + modernMeta + `, "notifications":{` + notifications + `}}}`
	}
	// The URI says what the policy decides.
	rule := func(c *Call) Ruling {
		_, uris, err := mcp.ListenURIs(&c.Envelope, c.Line)
		if err != nil {
			return denies
		}
		ruling := Ruling{Move: Forward, Gate: "rule"}
		for _, uri := range uris {
			switch {
			case strings.Contains(uri, "no"):
				return denies
			case strings.Contains(uri, "ask"):
				ruling = opsAsks
			}
		}
		return ruling
	}
	var many []string
	for i := range maxURIs + 1 {
		many = append(many, fmt.Sprintf(`"file:///%d"`, i))
	}
	for _, tt := range []struct {
		name    string
		line    string
		profile Profile
		move    Move
		want    string // what is written in the end; empty: the line
		reason  string
	}{
		{"nothing is refused", line(`"resourceSubscriptions":["file:///a" ,"file:///b"]`), Production, Forward, "", ""},
		{"one is", line(`"resourceSubscriptions":["file:///no","file:///b"],"x":1.0`), Production, Forward, line(`"resourceSubscriptions":["file:///b"],"x":1.0`), `withheld "file:///no" (not here)`},
		{"the last is", line(`"resourceSubscriptions":["file:///a", "file:///no"]`), Production, Forward, line(`"resourceSubscriptions":["file:///a"]`), `withheld`},
		{"all are", line(`"resourceSubscriptions":["file:///no"],"toolsListChanged":false`), Production, Deny, "", "not here"},
		{"all are, and lists are asked for", line(`"resourceSubscriptions":["file:///no"],"toolsListChanged":true`), Production, Forward, line(`"resourceSubscriptions":[],"toolsListChanged":true`), `withheld`},
		{"only lists", line(`"toolsListChanged":true`), Production, Forward, "", ""},
		{"one needs a person", line(`"resourceSubscriptions":["file:///ask","file:///no"]`), Production, Ask, line(`"resourceSubscriptions":["file:///ask"]`), "sampling costs"},
		{"development changes nothing", line(`"resourceSubscriptions":["file:///no","file:///b"]`), Development, Forward, "", "not here"},
		{"too many", line(`"resourceSubscriptions":[` + strings.Join(many, ",") + `]`), Production, Deny, "", "more than 1024 resources"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			h.profile, h.rule = tt.profile, rule
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(tt.line)})
			v := <-c
			if v.Move != tt.move || !strings.Contains(h.records[0].Reason, tt.reason) {
				t.Fatalf("got %v, recorded %q; want %v, %q", v.Move, h.records[0].Reason, tt.move, tt.reason)
			}
			if v.Move == Ask {
				h.answers <- Answer{ID: "A-1", Approved: true}
				v = <-c
			}
			if v.Move != Forward {
				return
			}
			want := tt.want
			if want == "" {
				want = tt.line
			}
			if string(v.Line) != want || v.Replaced != (tt.want != "") {
				t.Errorf("got  %s (replaced %v)\nwant %s", v.Line, v.Replaced, want)
			}
		})
	}
}
