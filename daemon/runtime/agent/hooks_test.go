package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// scrubbing hooks every call: it denies a write to a file named "no", withholds results that
// contain that, and removes the word hunter2 from the rest.
type scrubbing struct{}

func (scrubbing) Wants(*gate.Call, bool) bool   { return true }
func (scrubbing) Who(*gate.Call, bool) []string { return []string{"scrubbing"} }
func (scrubbing) Revision() uint64              { return 1 }
func (scrubbing) by(h gate.Hooked) gate.Hooked  { h.By = []string{"scrubbing"}; return h }
func (s scrubbing) refuse(reason string) gate.Hooked {
	return s.by(gate.Hooked{Move: gate.Deny, Reason: reason})
}

func (s scrubbing) Before(_ context.Context, c *gate.Call) gate.Hooked {
	if bytes.Contains(c.Arguments(), []byte("/no")) {
		return s.refuse("it says no")
	}
	return gate.Hooked{Move: gate.Forward}
}

func (s scrubbing) After(_ context.Context, _ *gate.Call, result []byte) gate.Hooked {
	switch {
	case bytes.Contains(result, []byte("withhold me")):
		return s.refuse("it says withhold")
	case bytes.Contains(result, []byte("hunter2")):
		return s.by(gate.Hooked{Move: gate.Forward, Changed: bytes.ReplaceAll(result, []byte("hunter2"), []byte("[out]"))})
	}
	return gate.Hooked{Move: gate.Forward}
}

// Extensions see the requests of a headless agent to its host, and their results.
func TestExtensionsSeeRuns(t *testing.T) {
	h := newFixture(t)
	h.hooks = scrubbing{}
	file := func(name, text string) string {
		path := filepath.Join(h.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret, kept := file("secret.txt", "the word is \"hunter2\"\nand more"), file("kept.txt", "withhold me: hunter2")
	var denied []string
	s := h.tell(t.Context(), "acp", strings.Join([]string{
		"read " + secret, "run cat " + secret, "read " + kept, "write " + filepath.Join(h.dir, "no") + " x", "permit execute x",
	}, "\n"), func(e Event) {
		switch e.Kind {
		case KindHeld:
			t.Errorf("a person is shown that %s is held, of which they have nothing to do", e.Tool)
		case KindDenied:
			denied = append(denied, e.Text)
		}
	})
	if strings.Contains(s.text, "hunter2") || strings.Count(s.text, "[out]") != 2 || strings.Contains(s.text, "withhold me") {
		t.Errorf("the agent was told %s", s.text)
	}
	if !strings.Contains(s.text, "and more") || !strings.Contains(s.text, `"optionId":"yes"`) {
		t.Errorf("what nobody objects to was not told: %s", s.text)
	}
	if len(denied) != 2 || !strings.Contains(denied[0], "it says withhold") || !strings.Contains(denied[1], "it says no") {
		t.Errorf("denied %q", denied)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "no")); !os.IsNotExist(err) {
		t.Errorf("the file was written: %v", err)
	}
	heard := strings.Join(h.heard, "\n")
	if strings.Count(heard, "hunter2") < 3 {
		t.Errorf("the memory has not heard what there was: %s", heard)
	}
}
