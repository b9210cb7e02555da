package serve

import (
	"fmt"
	"os"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// decline answers the agent's requests with an error until it hangs up, or a signal
// ends us: an agent learns more from an answer than from a closed pipe.
func (s *shim) decline(code int, text string) {
	gone := make(chan struct{})
	go func() { // ends with the agent or the process
		defer close(gone)
		reader := wire.NewReader(os.Stdin, wire.MaxMessage)
		var line wire.Line
		for reader.Next(&line) == nil {
			answer := func(id []byte, asks bool) {
				if asks {
					// An agent that reads nothing any more may still write.
					_, _ = fmt.Fprintf(os.Stdout, "%s\n", mcp.RefuseUnread(id, code, text))
				}
			}
			var e wire.Envelope
			switch {
			case line.TooLong:
			case wire.Read(line.Data, wire.FromAgent, &e) != nil:
				wire.Batch(line.Data, wire.FromAgent, answer)
			default:
				answer(e.ID.Of(line.Data), e.Kind == wire.Request)
			}
		}
	}()
	select {
	case <-gone:
	case <-s.signals:
	}
}
