package hook

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/thoughtgate/thoughtgated/internal/transcript"
)

// problemOf says why a transcript may have calls that were not found; empty if it can't.
func problemOf(r transcript.Reading, err error) string {
	what := ""
	switch at, _ := errors.AsType[*fs.PathError](err); {
	case errors.Is(err, fs.ErrNotExist):
		what = "transcript not found"
	case at != nil:
		what = fmt.Sprintf("transcript not read (%v)", at.Err)
	case err != nil:
		what = fmt.Sprintf("transcript not read (%v)", err)
	case r.Cut:
		what = fmt.Sprintf("only the last %d MB of the transcript read", transcript.MaxTail>>20)
	case r.Garbage == 1:
		what = "1 line of the transcript not understood"
	case r.Garbage > 1:
		what = fmt.Sprintf("%d lines of the transcript not understood", r.Garbage)
	default:
		return ""
	}
	return what + ": calls that no hook reported would not be seen"
}
