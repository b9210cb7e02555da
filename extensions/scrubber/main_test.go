package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// asScrubber makes the test binary the program itself.
const asScrubber = "SCRUBBER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asScrubber) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// gate is the gate's end of a connection to the program.
type gate struct {
	*rpc.Conn
	subscribed chan struct{}
	end        func() string // ends the program and returns its standard error
}

func start(t *testing.T, config string) *gate {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{asScrubber + "=1"}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &gate{subscribed: make(chan struct{}, 1)}
	g.Conn = rpc.NewConn(out, in, rpc.Options{Framing: wire.ContentLength{}, MaxMessage: 4 << 20,
		Handler: rpc.HandlerFunc(func(_ context.Context, method string, _ []byte) ([]byte, error) {
			if method != "config.subscribe" {
				return nil, &rpc.Fault{Code: -32601, Message: method}
			}
			g.subscribed <- struct{}{}
			return []byte(`{"ok":true}`), nil
		}),
		Dropped: func(reason string, _ []byte) { t.Errorf("the program said what was dropped: %s", reason) },
	})
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(context.Background()) })
	g.end = sync.OnceValue(func() string {
		g.Close()
		running.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program ended: %v", err)
		}
		return said.String()
	})
	t.Cleanup(func() { g.end() })
	if config != "" {
		g.ask(t, "initialize", fmt.Sprintf(`{"thoughtgate_version":"1","protocol_version":1,"name":"scrubber","root":"/","config":%s}`, config),
			`{"protocol_version":1,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}`)
		<-g.subscribed
	}
	return g
}

// ask expects this answer; with a leading ! an error that contains this text.
func (g *gate) ask(t *testing.T, method, params, want string) {
	t.Helper()
	got, err := g.Call(t.Context(), method, []byte(params))
	if text, ok := strings.CutPrefix(want, "!"); ok {
		var fault *rpc.Fault
		if !errors.As(err, &fault) || !strings.Contains(fault.Message, text) {
			t.Errorf("%s: %s, %v; want %q", method, got, err, text)
		}
	} else if err != nil || string(got) != want {
		t.Errorf("%s: %s, %v\nwant %s", method, got, err, want)
	}
}

func after(result string) string {
	return `{"call":{"id":"c","server":"fs","tool":"read","arguments":{}},"result":` + result + `}`
}

// TestProgram runs the program as the gate does.
//
//gotest:race it asks at the same time
func TestProgram(t *testing.T) {
	g := start(t, `{"limit":"2000"}`)
	g.ask(t, "hook.after", after(`{"content":[ ]}`), `{"action":"continue"}`)
	g.ask(t, "hook.after", after(`{ "a" : "`+github+`" }`), `{"action":"modify","result":{ "a" : "[redacted: github-pat]" }}`)
	g.ask(t, "hook.after", after(`"`+strings.Repeat("x", 2000)+`"`), `{"action":"block","reason":"the result has 2002 bytes, and the scrubber looks through 2000 at most (its limit)"}`)
	g.ask(t, "hook.after", `{"call":{}}`, "!a question without a result")
	g.ask(t, "hook.before", `{"call":{}}`, "!method not found: hook.before")

	heard := g.Subscribe(0, "command.output")
	defer heard.Close()
	g.ask(t, "command.invoke", `{"command":"report","args":[],"request_id":"r1"}`, `{"exit_code":0}`)
	g.ask(t, "command.invoke", `{"command":"report","args":["x"],"request_id":"r2"}`, `{"exit_code":2}`)
	g.ask(t, "command.invoke", `{"command":"show","args":[],"request_id":"r3"}`, `!there is no command "show"`)
	for _, want := range []string{
		`{"event":{"content":"3 results looked through since the start, secrets in 1\ngithub-pat                            1\n","kind":"text"},"request_id":"r1"}`,
		`{"event":{"content":"","kind":"done"},"request_id":"r1"}`,
		`{"event":{"content":"usage: tgctl ext run scrubber report","kind":"system"},"request_id":"r2"}`,
	} {
		if m, err := heard.Next(t.Context()); err != nil || string(m.Body) != want {
			t.Errorf("%s, %v\nwant %s", m.Body, err, want)
		}
	}

	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			g.ask(t, "hook.after", after(fmt.Sprintf(`[%d,"%s"]`, i, slack)), fmt.Sprintf(`{"action":"modify","result":[%d,"[redacted: slack-bot-token]"]}`, i))
		})
	}
	calls.Wait()
	g.ask(t, "shutdown", `{}`, `{}`)
	if said := g.end(); said != "" {
		t.Errorf("it said %q", said)
	}
}

// An invalid configuration prevents the start of the extension, and a later invalid change is
// ignored.
//
//gotest:race changes and requests come at the same time
func TestProgramConfiguration(t *testing.T) {
	g := start(t, "")
	g.ask(t, "hook.after", after(`1`), "!asked before the handshake")
	g.ask(t, "initialize", `{"protocol_version":1,"config":{"allow":"("}}`, "!allow: error parsing regexp")
	g.ask(t, "initialize", `{"protocol_version":2,"config":{}}`, `{"protocol_version":1,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}`)
	g.end()

	g = start(t, `{}`)
	redacted, kept := `{"action":"modify","result":["[redacted: github-pat]"]}`, `{"action":"continue"}`
	ask := after(`["` + github + `"]`)
	g.ask(t, "hook.after", ask, redacted)
	change := func(value, until string) {
		t.Helper()
		if err := g.Notify(t.Context(), "config.changed", []byte(`{"key":"allow","value":`+value+`}`)); err != nil {
			t.Fatal(err)
		}
		for { // changes are notifications, concurrent with requests
			if got, err := g.Call(t.Context(), "hook.after", []byte(ask)); err != nil || string(got) == until {
				return
			}
		}
	}
	change(`"ghp_.*"`, kept)
	change(`null`, redacted)
	if said := g.end(); strings.Contains(said, github) {
		t.Errorf("it said %q", said)
	}
}
