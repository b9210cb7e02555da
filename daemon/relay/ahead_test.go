package relay

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Input read behind the longest line while that was judged is available to the next daemon, as
// is the line.
func TestReadAheadOfTheLongestLine(t *testing.T) {
	s := newStage(t, play{longest: wire.MaxMessage})
	s.steps("cross "+aPing, `return {"jsonrpc":"2.0","id":2,"result":{}}`)
	const head = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"`
	call := head + strings.Repeat("x", wire.MaxMessage-len(head)-len(`"}}}`)) + `"}}}`
	s.steps("agent> "+call, "submit "+call)
	note := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"` + strings.Repeat("y", 60<<10) + `"}}`
	const notes = 2 * mapping.MaxAhead / (60 << 10)
	for range notes {
		s.steps("agent> " + note)
	}
	if err := s.until("it was read ahead", func() bool { return len(s.session.inputs[fromAgent].(*input).Unread()) >= mapping.MaxAhead }); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.steps("forward", "server< "+call)
	for range notes {
		s.steps("server< " + note)
	}
}
