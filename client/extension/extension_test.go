package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protowire"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const hello = `{"thoughtgate_version":"1.0","protocol_version":1,"name":"x","root":"/ext/x","config":{"limit":"3"}}`

// gate is the gate's end of a connection to a Handler.
type gate struct {
	*rpc.Conn
	ended chan error // result of Serve

	mu    sync.Mutex
	asked []string // requests of the extension
}

// converse serves h until the test ends.
func converse(t *testing.T, h extension.Handler) *gate {
	t.Helper()
	toExtension, fromGate := io.Pipe()
	toGate, fromExtension := io.Pipe()
	g := &gate{ended: make(chan error, 1)}
	g.Conn = rpc.NewConn(toGate, fromGate, rpc.Options{Framing: wire.Length32{}, Dialect: protowire.Dialect{}, Handler: rpc.HandlerFunc(g.handle)})
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(context.Background()) })
	running.Go(func() {
		g.ended <- extension.ServeOver(context.Background(), toExtension, fromExtension, h)
		fromExtension.Close()
	})
	t.Cleanup(func() {
		g.Close()
		running.Wait()
	})
	return g
}

func (g *gate) handle(_ context.Context, method string, params []byte) ([]byte, error) {
	g.mu.Lock()
	g.asked = append(g.asked, method+" "+string(params))
	g.mu.Unlock()
	switch method {
	case "memory.append":
		return []byte(`{"ok":true,"timestamp_ms":1795000000000}`), nil
	case "memory.query":
		return []byte(`{"records":[{"namespace":"x","timestamp_ms":5,"content":"c","tags":["a"],"meta":{"n":1}}]}`), nil
	case "config.get":
		return []byte(`{"value":null}`), nil
	case "config.subscribe":
		return []byte(`{"ok":true}`), nil
	}
	return nil, &rpc.Fault{Code: -32602, Message: "permission denied: config.write required"}
}

// call sends a request, which must have this answer; with a leading ! want is the text of the
// error.
func (g *gate) call(t *testing.T, method, params, want string) {
	t.Helper()
	got, err := g.Call(t.Context(), method, []byte(params))
	if text, ok := strings.CutPrefix(want, "!"); ok {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s %s: %s, %v; want the error %q", method, params, got, err, text)
		}
	} else if err != nil || string(got) != want {
		t.Errorf("%s %s:\n%s, %v\nwant %s", method, params, got, err, want)
	}
}

func TestHandshake(t *testing.T) {
	started := 0
	g := converse(t, extension.Handler{
		Start: func(_ context.Context, host *extension.Host) error {
			started++
			if host.Name() != "x" || host.Root() != "/ext/x" || host.Config("limit") != "3" || host.Config("other") != "" {
				t.Errorf("%q %q %q", host.Name(), host.Root(), host.Config("limit"))
			}
			return nil
		},
		Tools:        []extension.Tool{{Name: "t", Description: "d"}},
		Capabilities: []*extension.Capability{{Kind: "k", Name: "n", Permissions: []string{"tools"}, Params: []byte(`{"a":1}`)}},
	})
	g.call(t, "initialize", hello, `{"protocol_version":1,"capabilities":{"tools":[{"name":"t","description":"d","input_schema":{"type":"object"}}],`+
		`"providers":[],"capabilities":[{"kind":"k","name":"n","permissions":["tools"],"params":{"a":1}}]}}`)
	// Another version gets ours as the answer, and Start is not called.
	g.call(t, "initialize", strings.Replace(hello, `version":1`, `version":2`, 1), `{"protocol_version":1,"capabilities":{"tools":[{"name":"t","description":"d",`+
		`"input_schema":{"type":"object"}}],"providers":[],"capabilities":[{"kind":"k","name":"n","permissions":["tools"],"params":{"a":1}}]}}`)
	if started != 1 {
		t.Errorf("started %d times", started)
	}
	g.call(t, "shutdown", `{}`, `{}`)
	g.Close()
	if err := <-g.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestStartFails(t *testing.T) {
	g := converse(t, extension.Handler{Start: func(context.Context, *extension.Host) error { return errors.New("limit is no number") }})
	g.call(t, "initialize", hello, "!start: limit is no number")
}

func TestHooks(t *testing.T) {
	g := converse(t, extension.Handler{
		Before: func(_ context.Context, call *extension.Call) (extension.Answer, error) {
			switch call.Tool {
			case "block":
				return extension.Block("not " + call.Server), nil
			case "modify":
				return extension.Modify(json.RawMessage(`{"a" : 2}`)), nil
			case "fail":
				return extension.Answer{}, errors.New("I don't know")
			case "nothing":
				return extension.Answer{}, nil
			}
			return extension.Continue(), nil
		},
		After: func(_ context.Context, call *extension.Call, result json.RawMessage) (extension.Answer, error) {
			if string(result) == `{"a":1}` {
				return extension.Modify(call.Arguments), nil
			}
			return extension.Continue(), nil
		},
	})
	ask := func(tool string) string {
		return fmt.Sprintf(`{"call":{"server":"fs","tool":%q,"arguments":{"a":  1}}}`, tool)
	}
	g.call(t, "hook.before", ask("x"), `{"action":"continue"}`)
	g.call(t, "hook.before", ask("block"), `{"action":"block","reason":"not fs"}`)
	g.call(t, "hook.before", ask("modify"), `{"action":"modify","arguments":{"a" : 2}}`)
	g.call(t, "hook.before", ask("fail"), `!I don't know`)
	g.call(t, "hook.after", `{"call":{"arguments":{"b": 1}},"result":{"a":1}}`, `{"action":"modify","result":{"b": 1}}`)
	g.call(t, "hook.after", `{"call":{},"result":{"a":2}}`, `{"action":"continue"}`)
	g.call(t, "tool.call", `{"name":"t","input":{}}`, "!does not do that")
	g.call(t, "command.invoke", `{"command":"c","request_id":"r"}`, "!does not do that")
	g.call(t, "provider.complete", `{"provider_id":"p"}`, "!does not do that")
	g.call(t, "hook.before", ask("nothing"), `!the handler gave no answer`)
}

func TestTools(t *testing.T) {
	g := converse(t, extension.Handler{Tools: []extension.Tool{
		{Name: "say", Call: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			return extension.Text("<" + string(input) + ">"), nil
		}},
		{Name: "fail", Call: func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("no") }},
		{Name: "both", Call: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return extension.TextAnd("3 left", map[string]int{"left": 3})
		}},
	}})
	g.call(t, "tool.call", `{"name":"say","input":{"a":1}}`, `{"content":[{"type":"text","text":"<{\"a\":1}>"}],"isError":false}`)
	g.call(t, "tool.call", `{"name":"fail","input":{}}`, `{"content":[{"type":"text","text":"no"}],"isError":true}`)
	g.call(t, "tool.call", `{"name":"both","input":{}}`, `{"content":[{"type":"text","text":"3 left"}],"structuredContent":{"left":3},"isError":false}`)
	if _, err := extension.TextAnd("x", func() {}); err == nil {
		t.Error("a function has JSON")
	}
}

func TestProviders(t *testing.T) {
	provider := extension.Provider{
		ID: "p", DisplayName: "P", Description: "d", Models: []*extension.Model{{Id: "m"}}, ConfigSchema: json.RawMessage(`{"a": 1}`),
		Complete: func(_ context.Context, asked *extension.ProviderRequest) (*extension.ProviderAnswer, error) {
			if asked.GetSystemPrompt() != "s" {
				return nil, errors.New("no prompt")
			}
			return &extension.ProviderAnswer{Content: asked.Messages}, nil
		},
		Stream: func(_ context.Context, _ *extension.ProviderRequest, emit func(json.RawMessage) error) (*extension.ProviderAnswer, error) {
			return nil, errors.Join(emit(json.RawMessage(`{"type":"text","delta":"a"}`)), emit(json.RawMessage(`{"type":"done"}`)))
		},
	}
	g := converse(t, extension.Handler{Providers: []extension.Provider{provider, {ID: "none"}}})
	g.call(t, "initialize", hello, `{"protocol_version":1,"capabilities":{"tools":[],"providers":[{"id":"p","display_name":"P","description":"d","models":[{"id":"m"}],`+
		`"config_schema":{"a": 1}},{"id":"none","display_name":"","description":"","models":[]}],"capabilities":[]}}`)
	g.call(t, "provider.complete", `{"provider_id":"p","system_prompt":"s","messages":[{"role":"user"}]}`, `{"content":[{"role":"user"}]}`)
	g.call(t, "provider.complete", `{"provider_id":"p"}`, "!no prompt")
	g.call(t, "provider.complete", `{"provider_id":"q"}`, `!provider "q": this extension does not do that`)
	g.call(t, "provider.complete", `{"provider_id":"none"}`, "!does not do that")
	g.call(t, "provider.stream", `{"provider_id":"none"}`, "!does not do that")
	heard := g.Subscribe(0)
	defer heard.Close()
	g.call(t, "provider.stream", `{"provider_id":"p","request_id":"r"}`, `{"content":[]}`)
	for _, want := range []string{`{"request_id":"r","event":{"type":"text","delta":"a"}}`, `{"request_id":"r","event":{"type":"done"}}`} {
		if m, err := heard.Next(t.Context()); err != nil || m.Method != "provider.stream.event" || string(m.Body) != want {
			t.Errorf("%s %s, %v; want %s", m.Method, m.Body, err, want)
		}
	}
}

func TestCommands(t *testing.T) {
	g := converse(t, extension.Handler{Commands: map[string]extension.Command{
		"count": func(_ context.Context, out *extension.Output, args []string) (int, error) {
			task, err := out.Task("Counting")
			if err != nil {
				return 0, err
			}
			return 7, errors.Join(task.Update(1, 2), task.Log("half"), task.Done(errors.New("no more")),
				out.Notice("that's it"), func() error { _, err := fmt.Fprintln(out, args); return err }())
		},
		"fail": func(context.Context, *extension.Output, []string) (int, error) { return 0, errors.New("can't") },
	}})
	heard := g.Subscribe(0)
	defer heard.Close()
	g.call(t, "command.invoke", `{"command":"count","args":["a","b"],"request_id":"r1"}`, `{"exit_code":7}`)
	g.call(t, "command.invoke", `{"command":"fail","args":[],"request_id":"r2"}`, `!can't`)
	for _, want := range []string{
		`task.start {"id":"r1-1","label":"Counting"}`, `task.update {"id":"r1-1","current":1,"total":2}`, `task.log {"id":"r1-1","line":"half"}`,
		`task.done {"id":"r1-1","error":"no more"}`, `command.output {"request_id":"r1","event":{"kind":"system","content":"that's it"}}`,
		`command.output {"request_id":"r1","event":{"kind":"text","content":"[a b]\n"}}`, `command.output {"request_id":"r1","event":{"kind":"done"}}`,
	} {
		m, err := heard.Next(t.Context())
		if got := m.Method + " " + string(m.Body); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestHost(t *testing.T) {
	changed := make(chan string, 1)
	var host *extension.Host
	g := converse(t, extension.Handler{
		Start: func(ctx context.Context, h *extension.Host) error {
			host = h
			when, err := h.Remember(ctx, "c", []string{"a"}, json.RawMessage(`{"n":1}`))
			if err != nil || when.UnixMilli() != 1795000000000 {
				t.Errorf("%v, %v", when, err)
			}
			records, err := h.Recall(ctx, extension.Query{TagPrefix: "a", Since: time.UnixMilli(5), Limit: 2})
			if err != nil || len(records) != 1 || records[0].Content != "c" || records[0].TimestampMs != 5 || string(records[0].Meta) != `{"n":1}` {
				t.Errorf("%v, %v", records, err)
			}
			if value, ok, err := h.ConfigNow(ctx, "limit"); value != "" || ok || err != nil {
				t.Errorf("%q, %v, %v", value, ok, err)
			}
			var refused *extension.Error
			if err := h.SetConfig(ctx, "limit", "4"); !errors.As(err, &refused) || refused.Code != -32602 {
				t.Errorf("%v", err)
			}
			return h.Subscribe(ctx)
		},
		ConfigChanged: func(key, value string) { changed <- key + "=" + value + "=" + host.Config(key) },
	})
	g.call(t, "initialize", hello, `{"protocol_version":1,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}`)
	for _, test := range []struct{ told, want string }{
		{`{"key":"limit","value":"9"}`, "limit=9=9"},
		{`{"key":"limit","value":null}`, "limit=="},
	} {
		if err := g.Notify(t.Context(), "config.changed", []byte(test.told)); err != nil {
			t.Fatal(err)
		}
		if got := <-changed; got != test.want {
			t.Errorf("changed to %q, want %q", got, test.want)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if want := []string{
		`memory.append {"namespace":"x","content":"c","tags":["a"],"meta":{"n":1}}`, `memory.query {"namespace":"x","tag_prefix":"a","since_ms":5,"limit":2}`,
		`config.get {"key":"limit"}`, `config.set {"key":"limit","value":"4"}`, `config.subscribe {}`,
	}; !slices.Equal(g.asked, want) {
		t.Errorf("asked %q\nwant  %q", g.asked, want)
	}
}

// A cancelled request ends, and the end of the connection cancels running functions.
func TestEnds(t *testing.T) {
	arrived, ended := make(chan *extension.Host, 2), make(chan error, 2)
	var host *extension.Host
	g := converse(t, extension.Handler{
		Start: func(_ context.Context, h *extension.Host) error { host = h; return nil },
		Before: func(ctx context.Context, _ *extension.Call) (extension.Answer, error) {
			arrived <- host
			<-ctx.Done()
			_, err := host.Remember(ctx, "x", nil, nil)
			ended <- err
			return extension.Continue(), nil
		},
	})
	g.call(t, "initialize", hello, `{"protocol_version":1,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := g.Call(ctx, "hook.before", []byte(`{"call":{}}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-ended
	last := make(chan error, 1)
	go func() {
		_, err := g.Call(context.Background(), "hook.before", []byte(`{"call":{}}`))
		last <- err
	}()
	<-arrived
	g.Close()
	if err := <-ended; err == nil {
		t.Error("something was remembered after the end")
	}
	if err := <-g.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := <-last; !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Serve gives up on a gate that writes garbage.
func TestGarbage(t *testing.T) {
	for name, said := range map[string]string{
		"no frame":        "\x00\x00\x00\x03\xff\xff\xff",
		"cut short":       "\x00\x00\x00\x09abc",
		"far too long":    "\x7f\xff\xff\xff",
		"past the limit":  "\x00\xa0\x00\x01" + strings.Repeat("x", 10<<20+1),
		"half of a frame": "\x00\x00",
	} {
		if err := extension.ServeOver(t.Context(), io.NopCloser(strings.NewReader(said)), io.Discard, extension.Handler{}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := extension.ServeOver(t.Context(), io.NopCloser(strings.NewReader("")), io.Discard, extension.Handler{}); err != nil {
		t.Errorf("the end: %v", err)
	}
}
