package relay

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// TestEveryRowHasATranscript checks that each message in the table of methods occurs in a
// transcript: each request and each answer to one, each notification, from each side and in
// each era.
func TestEveryRowHasATranscript(t *testing.T) {
	played := map[string]bool{}
	for _, file := range transcripts(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(played, rowsOf(string(text)))
	}
	for row := range rows() {
		if !played[row] {
			t.Errorf("no transcript has %s", row)
		}
	}
}

// row is a key of the table.
func row(side wire.Side, what, method string, modern bool) string {
	era := "legacy"
	if modern {
		era = "modern"
	}
	return fmt.Sprintf("%s's %s %s (%s)", map[wire.Side]string{wire.FromAgent: "the agent", wire.FromServer: "the server"}[side], what, method, era)
}

// rows returns the keys of the table.
func rows() map[string]bool {
	all := map[string]bool{}
	for _, side := range []wire.Side{wire.FromAgent, wire.FromServer} {
		for _, method := range mcp.Methods(side) {
			for _, modern := range []bool{false, true} {
				for kind, what := range map[wire.Kind]string{wire.Request: "request", wire.Notification: "notification"} {
					if rule := mcp.Lookup(side, &wire.Envelope{Kind: kind, Method: method, Modern: modern}); rule.Unknown || rule.Treatment == mcp.Refuse {
						continue
					}
					all[row(side, what, method, modern)] = true
					if kind == wire.Request {
						all[row(other(side), "answer to", method, modern)] = true
					}
				}
			}
		}
	}
	return all
}

// rowsOf returns the rows that a transcript plays: what is forwarded, judged, or answered in
// it.
func rowsOf(text string) map[string]bool {
	played := map[string]bool{}
	asked := [2]map[string]*wire.Envelope{{}, {}} // by requester and id
	modern := false
	for _, step := range strings.Split(text, "\n") {
		verb, line, _ := strings.Cut(shorthand.Replace(step), " ")
		side, ok := map[string]wire.Side{
			"agent>": wire.FromAgent, "cross": wire.FromAgent, "judged": wire.FromAgent,
			"server>": wire.FromServer, "return": wire.FromServer, "weighed": wire.FromServer,
		}[verb]
		var e wire.Envelope
		if !ok || wire.Read([]byte(line), side, &e) != nil {
			continue
		}
		modern = modern || e.Modern
		switch e.Kind {
		case wire.Request:
			played[row(side, "request", e.Method, e.Modern)] = true
			asked[side][e.Key([]byte(line))] = &e
		case wire.Notification:
			// The sender does not state the era: the transcript's era counts.
			played[row(side, "notification", e.Method, modern)] = true
		default:
			if request := asked[other(side)][e.Key([]byte(line))]; request != nil {
				played[row(side, "answer to", request.Method, request.Modern)] = true
			}
		}
	}
	return played
}

// The search for rows finds those that a transcript lacks.
func TestRowsOf(t *testing.T) {
	got := slices.Sorted(maps.Keys(rowsOf(`
# {«»,"id":1,"method":"ping"}
cross {«»,"id":1,"method":"ping"}
server> {«»,"id":1,"result":{}}
weighed {«»,"id":1,"method":"roots/list"}
agent> {«»,"method":"notifications/initialized"}
agent> {«»,"id":2,"method":"tools/call","params":{«modern»,"name":"t"}}
agent> {«»,"method":"notifications/progress"}
`)))
	want := []string{
		"the agent's notification notifications/initialized (legacy)", "the agent's notification notifications/progress (modern)",
		"the agent's request ping (legacy)", "the agent's request tools/call (modern)",
		"the server's answer to ping (legacy)", "the server's request roots/list (legacy)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
