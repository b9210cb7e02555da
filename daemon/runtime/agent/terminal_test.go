package agent

import (
	"fmt"
	"strings"
	"testing"
)

// The terminals of a run: one ends by itself, one is killed, one is left running, and one that
// can't be started reports why.
func TestTerminals(t *testing.T) {
	h := newFixture(t)
	create := func(params string) string { return "ask terminal/create " + params }
	prompt := strings.Join([]string{
		create(`{"command":"sh","args":["-c","echo $A $PWD; echo oops >&2; exit 3"],"env":[{"name":"A","value":"b"}],"cwd":"/"}`),
		`ask terminal/wait_for_exit {"terminalId":"T-1"}`,
		`ask terminal/output {"terminalId":"T-1"}`,
		create(`{"command":"sleep","args":["1000"]}`),
		`ask terminal/output {"terminalId":"T-2"}`,
		`ask terminal/kill {"terminalId":"T-2"}`,
		`ask terminal/wait_for_exit {"terminalId":"T-2"}`,
		`ask terminal/release {"terminalId":"T-2"}`,
		`ask terminal/output {"terminalId":"T-2"}`,
		create(`{"command":"sh","args":["-c","printf 123456789"],"outputByteLimit":4}`),
		`ask terminal/wait_for_exit {"terminalId":"T-3"}`,
		`ask terminal/output {"terminalId":"T-3"}`,
		create(`{"command":"echo hello"}`),
		create(`{"command":"echo","cwd":"here"}`),
		create(`{"command":"echo","args":[1]}`),
		create(`{"command":"echo","env":[{"name":"THOUGHTGATE_ACTIVE","value":""}]}`),
		create(`{"command":"sh","args":["-c","sleep 1000 & sleep 1000"]}`), // ends with the run
	}, "\n")
	got := h.tell(t.Context(), "acp", prompt, nil).text
	for i, want := range []string{
		`{"terminalId":"T-1"}`, `{"exitCode":3,"signal":null}`, `"truncated":false,"exitStatus":{"exitCode":3,"signal":null}}`,
		`{"terminalId":"T-2"}`, `{"output":"","truncated":false}`, `{}`, `{"exitCode":null,"signal":"SIGTERM"}`, `{}`, `error: no terminal "T-2"`,
		`{"terminalId":"T-3"}`, `{"exitCode":0,"signal":null}`, `{"output":"6789","truncated":true,`,
		`error: start "echo hello": command not found`, `is not absolute`, `args must be an array of strings`, `the variable "THOUGHTGATE_ACTIVE" is not allowed here`, `{"terminalId":"T-4"}`,
	} {
		lines := strings.Split(got, "\n")
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("step %d: %q, want %q", i+1, lines[min(i, len(lines)-1)], want)
		}
	}
	for _, want := range []string{"b /\\n", "oops\\n"} { // in any order
		if !strings.Contains(got, want) {
			t.Errorf("the output lacks %q: %s", want, got)
		}
	}
	for i := range mostTerminals + 1 {
		prompt += fmt.Sprintf("\n"+`ask terminal/create {"command":"true","args":["%d"]}`, i)
	}
	if got := h.tell(t.Context(), "acp", prompt, nil).text; !strings.Contains(got, "terminals are already open") {
		t.Errorf("as many terminals as it likes: %s", got)
	}
}
