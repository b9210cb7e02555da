package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protowire"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// host is the gate's end of a connection to the extension, and its memory.
type host struct {
	*rpc.Conn
	clock *clock

	mu      sync.Mutex
	records []string // JSON
	full    bool     // no more records are stored
}

// start starts the extension with this configuration. records are those of an earlier run.
func start(t *testing.T, config string, records ...string) *host {
	t.Helper()
	toExtension, fromGate := io.Pipe()
	toGate, fromExtension := io.Pipe()
	h := &host{clock: &clock{t: time.UnixMilli(1795000000000)}, records: records}
	h.Conn = rpc.NewConn(toGate, fromGate, rpc.Options{Framing: wire.Length32{}, Dialect: protowire.Dialect{}, Handler: rpc.HandlerFunc(h.handle)})
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(context.Background()) })
	running.Go(func() {
		if err := extension.ServeOver(context.Background(), toExtension, fromExtension, newQuota(h.clock.now).handler()); err != nil {
			t.Error(err)
		}
		fromExtension.Close()
	})
	t.Cleanup(func() {
		h.Close()
		running.Wait()
	})
	_, err := h.Call(t.Context(), "initialize", fmt.Appendf(nil, `{"thoughtgate_version":"1","protocol_version":1,"name":"quota","root":"/","config":%s}`, config))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) handle(_ context.Context, method string, params []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch method {
	case "memory.append":
		if h.full {
			return nil, &rpc.Fault{Code: -32000, Message: "no room"}
		}
		h.records = append(h.records, string(params))
		return []byte(`{"ok":true,"timestamp_ms":0}`), nil
	case "memory.query":
		since := fmt.Sprintf(`{"namespace":"quota","tag_prefix":"call","since_ms":%d`, h.clock.now().Add(-hour).UnixMilli())
		switch string(params) {
		case since + `,"limit":1000}`: // the newest
			return []byte(`{"records":[` + strings.Join(h.records[max(0, len(h.records)-page):], ",") + `]}`), nil
		case since + `,"until_ms":1794999999999,"limit":1000}`:
			return []byte(`{"records":[` + strings.Join(h.records[:len(h.records)-page], ",") + `]}`), nil
		}
		return nil, fmt.Errorf("asked %s", params)
	}
	return []byte(`{"ok":true}`), nil
}

// call asks about a call and expects this answer.
func (h *host) call(t *testing.T, server, tool, want string) {
	t.Helper()
	answer, err := h.Call(t.Context(), "hook.before", fmt.Appendf(nil, `{"call":{"server":%q,"tool":%q,"arguments":{}}}`, server, tool))
	if err != nil || !strings.Contains(string(answer), want) {
		t.Errorf("%s/%s: %s, %v; want %s", server, tool, answer, err, want)
	}
}

const (
	goes   = `"continue"`
	blocks = `"block"`
)

func TestQuota(t *testing.T) {
	h := start(t, `{"limit":"2","limits":"fs/write_*=1 git*/*=0"}`)
	h.call(t, "fs", "read", goes)
	h.clock.pass(time.Minute)
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "read", "the quota of fs/read is 2 calls in an hour, and they are used up; the next is free at "+
		h.clock.now().Add(59*time.Minute).Format("15:04:05"))
	h.call(t, "other", "read", goes)
	h.call(t, "fs", "write_file", goes)
	h.call(t, "fs", "write_file", blocks)
	h.call(t, "fs", "write_all", goes)
	h.call(t, "github", "star", "the quota of github/star is no call at all")
	// An hour after the first call one call is permitted again, and no more.
	h.clock.pass(59*time.Minute + time.Second)
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "read", blocks)
}

// After a restart within the hour earlier calls still count.
func TestRemembers(t *testing.T) {
	h := start(t, `{"limit":"2"}`)
	h.call(t, "fs", "read", goes)
	h.mu.Lock()
	kept := strings.Join(h.records, ",")
	h.mu.Unlock()
	if want := `{"namespace":"quota","content":"fs/read","tags":["call"]}`; kept != want {
		t.Errorf("remembers %s, want %s", kept, want)
	}
	recent := h.clock.now().Add(-time.Minute).UnixMilli()
	h = start(t, `{"limit":"2"}`, fmt.Sprintf(`{"namespace":"quota","timestamp_ms":%d,"content":"fs/read","tags":["call"]}`, recent))
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "read", blocks)

	// Many records are queried page by page.
	many := []string{fmt.Sprintf(`{"namespace":"quota","timestamp_ms":%d,"content":"fs/read","tags":["call"]}`, recent)}
	for range page {
		many = append(many, `{"namespace":"quota","timestamp_ms":1795000000000,"content":"fs/read","tags":["call"]}`)
	}
	h = start(t, `{"limit":"1001"}`, many...)
	h.call(t, "fs", "read", blocks)
	h.call(t, "fs", "write", goes)
}

// A full memory denies no call, and the limit still applies.
func TestMemoryFull(t *testing.T) {
	h := start(t, `{"limit":"1"}`)
	h.mu.Lock()
	h.full = true
	h.mu.Unlock()
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "read", blocks)
}

func TestConfigChanges(t *testing.T) {
	h := start(t, `{"limit":"1"}`)
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "read", blocks)
	for _, value := range []string{"2", "many"} { // the second is invalid, so the first stays
		if err := h.Notify(t.Context(), "config.changed", fmt.Appendf(nil, `{"key":"limit","value":%q}`, value)); err != nil {
			t.Fatal(err)
		}
	}
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "read", blocks)
}

func TestTool(t *testing.T) {
	h := start(t, `{"limit":"2"}`)
	left := func(input, want string) {
		t.Helper()
		got, err := h.Call(t.Context(), "tool.call", []byte(`{"name":"quota_left","input":`+input+`}`))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", input, got, err, want)
		}
	}
	left(`{}`, `{"content":[{"type":"text","text":"no tool was called in the last hour\n"}],"structuredContent":{"left":{}},"isError":false}`)
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "write", goes)
	left(`{}`, `{"content":[{"type":"text","text":"fs/read: 1 of 2 calls left\nfs/write: 1 of 2 calls left\n"}],"structuredContent":{"left":{"fs/read":1,"fs/write":1}},"isError":false}`)
	left(`{"tool":"fs/read"}`, `{"content":[{"type":"text","text":"fs/read: 1 of 2 calls left\n"}],"structuredContent":{"left":{"fs/read":1}},"isError":false}`)
	left(`{"tool":"fs/new"}`, `{"content":[{"type":"text","text":"fs/new: 2 of 2 calls left\n"}],"structuredContent":{"left":{"fs/new":2}},"isError":false}`)
	left(`{"tool":1}`, `{"content":[{"type":"text","text":"read the input: json: cannot unmarshal number into Go struct field .Tool of type string"}],"isError":true}`)
}

func TestShow(t *testing.T) {
	h := start(t, `{"limit":"2"}`)
	h.call(t, "fs", "read", goes)
	h.call(t, "fs", "write", goes)
	heard := h.Subscribe(0)
	defer heard.Close()
	if got, err := h.Call(t.Context(), "command.invoke", []byte(`{"command":"show","args":[],"request_id":"r"}`)); err != nil || string(got) != `{"exit_code":0}` {
		t.Fatalf("%s, %v", got, err)
	}
	var text string
	for _, want := range []string{"task.start", "command.output", "task.update", "command.output", "task.update", "task.done", "command.output"} {
		m, err := heard.Next(t.Context())
		if err != nil || m.Method != want {
			t.Fatalf("%s, %v; want %s", m.Method, err, want)
		}
		text += string(m.Body)
	}
	for _, want := range []string{"fs/read", `   1 of    2\n`, `"current":1,"total":2`, `"current":2,"total":2`, `{"kind":"done"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if got, err := h.Call(t.Context(), "command.invoke", []byte(`{"command":"show","args":["x"],"request_id":"r"}`)); err != nil || string(got) != `{"exit_code":2}` {
		t.Fatalf("%s, %v", got, err)
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct{ all, some, wrong string }{
		{"60", "", ""},
		{"0", " a/b=1,\n*/*=2 ", ""},
		{"", "", `limit: "" is no number from 0 to 100000`},
		{"-1", "", "no number"},
		{"1000000", "", "no number"},
		{"1", "a=1", `limits: "a=1" is not as server/tool=10`},
		{"1", "a/b", "is not as server/tool=10"},
		{"1", "a/[=1", `limits: "a/[" is no pattern`},
		{"1", "a/b=x", `limits: a/b: "x" is no number`},
	} {
		_, err := parseLimits(test.all, test.some)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%q %q: %v, want %q", test.all, test.some, err, test.wrong)
		}
	}
	l, err := parseLimits("5", "a/b=1 a/*=2 */b=3 */a:b=4")
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]int{"a/b": 1, "a/c": 2, "c/b": 3, "c/d": 5, "c/a/b": 4} {
		if got := l.of(tool); got != want {
			t.Errorf("%s: %d, want %d", tool, got, want)
		}
	}
}
