package agentconf

import (
	"time"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

const (
	// A writer that is in the middle of its work leaves half a file for a moment.
	// That is worth waiting for where the alternative is to put such a file aside,
	// and less so where it is an error message.
	settleFor     = time.Second
	settleShortly = 100 * time.Millisecond
	settleEvery   = 20 * time.Millisecond
)

// parseSettled reads a file, giving a writer who is at it a moment to finish. What is
// doubtful in it is left to the caller.
// It returns the file that was parsed: now, or what came after it. With an error
// it is the one read last.
func parseSettled(now *file, syntax edit.Syntax, patience time.Duration) (*edit.Document, *file, error) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		doc, err := syntax.Read(now.data)
		if err == nil || time.Now().After(deadline) {
			return doc, now, err
		}
		<-tick.C
		again, failed := readFile(now.path)
		if failed != nil {
			return nil, now, err
		}
		now = again
	}
}
