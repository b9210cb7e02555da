package agentconf

import "fmt"

// EmptyError says that an agent would start nothing that we govern.
type EmptyError struct{ text string }

func (e *EmptyError) Error() string { return e.text }

func empty(format string, args ...any) *EmptyError {
	return &EmptyError{fmt.Sprintf(format, args...)}
}
