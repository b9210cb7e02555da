package agentconf

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for agent, want := range map[string]time.Duration{
		"codex": callAllowed, "claude-code": callAllowed, "claude-desktop": time.Minute, "cline": time.Minute,
		"gemini": 10 * time.Minute, "cursor": 0, "custom": 0, "": 0,
	} {
		if got := CallTimeout(agent); got != want {
			t.Errorf("%q: got %v, want %v", agent, got, want)
		}
	}
}
