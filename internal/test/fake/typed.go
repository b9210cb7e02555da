package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// TypedAgent is an agent that speaks typed JSON on in and out: it gets `execute` once and
// streams the words of its prompt back. Some first words of a prompt have other effects: fail
// TEXT answers with an error, exit CODE ends the agent, hang answers nothing, late CODE answers
// and then exits with that code, ask METHOD sends a request to the host, and lie answers with
// another id. TypedAgent returns the exit code.
func TypedAgent(in io.Reader, out, errw io.Writer) int {
	dec := json.NewDecoder(in)
	enc := json.NewEncoder(out)
	var m struct {
		Type, ID, Method string
		Params           struct{ Prompt, Cwd string }
	}
	if err := dec.Decode(&m); err != nil || m.Method != "execute" {
		_, _ = fmt.Fprintln(errw, "expected a request to execute")
		return 3
	}
	word, rest, _ := strings.Cut(m.Params.Prompt, " ")
	code, _ := strconv.Atoi(rest)
	part := func(id, text string) { _ = enc.Encode(map[string]string{"type": "stream", "id": id, "delta": text}) }
	switch word {
	case "fail":
		_ = enc.Encode(map[string]any{"type": "error", "id": m.ID, "error": map[string]any{"code": 7, "message": rest}})
		return 0
	case "exit":
		_, _ = fmt.Fprintln(errw, "giving up")
		return code
	case "hang":
		_, _ = io.Copy(io.Discard, in)
		return 0
	case "stubborn":
		part(m.ID, fmt.Sprintf("%d", os.Getpid()))
		for {
			time.Sleep(time.Hour)
		}
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "ask":
		_ = enc.Encode(map[string]any{"type": "request", "id": "a-1", "method": rest, "params": map[string]any{}})
		var answer json.RawMessage
		_ = dec.Decode(&answer) // the following output shows whether there was one
		part(m.ID, string(answer))
	case "lie":
		part("req-99", "not for you")
		_ = enc.Encode(map[string]any{"type": "response", "id": "req-99", "result": "no"})
	}
	for _, w := range strings.Fields(m.Params.Prompt) {
		part(m.ID, w+" ")
	}
	_ = enc.Encode(map[string]any{"type": "response", "id": m.ID, "result": map[string]any{"cwd": m.Params.Cwd}})
	if word == "late" {
		return code
	}
	_, _ = io.Copy(io.Discard, in) // until the host closes it
	return 0
}
