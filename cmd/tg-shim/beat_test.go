package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// delivered is an obeyer that keeps what the agent is given.
type delivered struct {
	obeyer
	lines []string
}

func (d *delivered) deliver(line []byte) { d.lines = append(d.lines, string(line)) }

// A held call is heard of at once and every ten seconds, with the agent's own
// token and rising, until there is a verdict.
func TestBeats(t *testing.T) {
	for _, token := range []string{`7`, `"7"`, `"a\u0041"`} {
		t.Run(token, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := &delivered{}
				l := &link{obey: agent, calls: map[uint64]*call{}}
				c := &call{request: &request{token: []byte(token)}}
				locked := func(do func()) {
					l.mu.Lock()
					defer l.mu.Unlock()
					do()
				}
				locked(func() { l.beat(c, "A-1") })
				time.Sleep(beatEvery + time.Second)
				locked(func() { l.beat(c, "A-2") }) // the daemon came back and said so again
				time.Sleep(beatEvery)
				locked(func() { l.finish(c) })
				time.Sleep(10 * beatEvery)
				var want []string
				for i, id := range []string{"A-1", "A-1", "A-2"} {
					want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0.00000%d,"message":"waiting for approval %s"}}`, token, i+1, id))
				}
				if !slices.Equal(agent.lines, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(agent.lines, "\n"), strings.Join(want, "\n"))
				}
				for _, line := range agent.lines {
					var e wire.Envelope
					if err := wire.Read([]byte(line), wire.FromServer, &e); err != nil || e.Method != "notifications/progress" {
						t.Errorf("%s: %v", line, err)
					}
				}
			})
		})
	}
}

func TestTokens(t *testing.T) {
	for meta, want := range map[string]string{
		`{"progressToken":1}`: `1`, `{"progressToken":"1"}`: `"1"`, `{}`: ``, `{"progressToken":null}`: ``,
		`{"progressToken":1.5}`: ``, `{"progressToken":[1]}`: ``, `{"progressToken":{}}`: ``, `{"progressToken":true}`: ``,
	} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","_meta":` + meta + `}}`)
		var e wire.Envelope
		if err := wire.Read(line, wire.FromAgent, &e); err != nil {
			continue // a line that is refused as a whole has no token either
		}
		if got := string(tokenOf(&e, line)); got != want {
			t.Errorf("%s: got %q, want %q", meta, got, want)
		}
	}
}
