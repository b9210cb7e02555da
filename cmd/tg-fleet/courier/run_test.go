package courier

import (
	"errors"
	"log/slog"
	"testing"
)

// What does not work is said until it does again, whatever else works or fails meanwhile.
func TestFailures(t *testing.T) {
	c := &Courier{Log: slog.New(slog.DiscardHandler)}
	for _, step := range []struct {
		what, err, want string
	}{
		{"send records", "no disk", "send records: no disk"},
		{"get policies", "no answer", "get policies: no answer; send records: no disk"},
		{"report", "", "get policies: no answer; send records: no disk"},
		{"get policies", "", "send records: no disk"},
		{"send records", "no network", "send records: no network"},
		{"send records", "", ""},
	} {
		var err error
		if step.err != "" {
			err = errors.New(step.err)
		}
		if c.failed(step.what, err); c.state.Error != step.want {
			t.Errorf("%s: %q: %q, want %q", step.what, step.err, c.state.Error, step.want)
		}
	}
}
