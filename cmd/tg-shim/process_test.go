//gotest:plain the programs are looked at from outside
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// forwardAll is a configuration that forwards everything except what the tests hold or deny.
const forwardAll = rig.Configuration + "profile: production\nshim: {reattach: 1s}\n"

func newFixture(t *testing.T, configuration string) *rig.Fixture {
	t.Helper()
	h := rig.NewFixture(t)
	h.Configure(configuration)
	return h
}

// pair is a real tg-shim with the test at both ends, which reads lines there one after the
// other.
type pair struct {
	*rig.Shim
	t          *testing.T
	seen       int // lines that the agent has read
	seenServer int
}

func startPair(t *testing.T, h *rig.Fixture, o rig.Options) *pair {
	t.Helper()
	p := &pair{Shim: h.Shim(t, o), t: t}
	if o.Command == nil {
		p.join()
	}
	return p
}

func (p *pair) join() {
	p.t.Helper()
	if err := p.Join(); err != nil {
		p.t.Fatal(err)
	}
}

// agent and server write lines.
func (p *pair) agent(lines ...string) {
	p.t.Helper()
	if err := p.Send([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		p.t.Fatalf("the shim does not read: %v\n%s", err, p.Stderr())
	}
}

func (p *pair) server(lines ...string) {
	p.t.Helper()
	if err := p.Server.Send([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		p.t.Fatal(err)
	}
}

// agentReads and serverReads expect these lines next.
func (p *pair) agentReads(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		if got := p.next(); got != want {
			p.t.Fatalf("the agent reads\n\t%.300s\nand should\n\t%.300s\n%s", got, want, p.Stderr())
		}
	}
}

func (p *pair) serverReads(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		if got := next(p.t, p.Server.Inbox, &p.seenServer); got != want {
			p.t.Fatalf("the server reads\n\t%.300s\nand should\n\t%.300s\n%s", got, want, p.Stderr())
		}
	}
}

// next returns the next line that the agent reads.
func (p *pair) next() string {
	p.t.Helper()
	return next(p.t, p.Agent, &p.seen)
}

func next(t *testing.T, b *rig.Inbox, seen *int) string {
	t.Helper()
	i, err := b.Await(*seen, rig.Timeout, func([]byte) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	*seen = i + 1
	lines, _ := b.Since(i)
	return strings.TrimSuffix(string(lines[0]), "\n")
}

// agentReadsErrors expects errors with the code for exactly these ids next, in any order.
func (p *pair) agentReadsErrors(code int, ids ...string) {
	p.t.Helper()
	open := map[string]bool{}
	for _, id := range ids {
		open[id] = true
	}
	for range ids {
		line := p.next()
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
		if !open[id] || !strings.HasPrefix(rest, fmt.Sprintf(`"error":{"code":%d,`, code)) {
			p.t.Fatalf("the agent reads %s\nand should read one error %d for each of %v", line, code, ids)
		}
		delete(open, id)
	}
}

// ends expects tg-shim to exit with code within d, with nothing more for the agent.
func (p *pair) ends(code int, d time.Duration) {
	p.t.Helper()
	got, ok := p.Wait(d)
	if !ok || got != code {
		p.t.Fatalf("the shim: exit status %d, ended %v; want %d within %v\n%s", got, ok, code, d, p.Stderr())
	}
	eventually(p.t, "the agent's end of the pipe is closed", p.Agent.Ended)
	if lines, tail := p.Agent.Since(p.seen); len(lines) > 0 || len(tail) > 0 {
		p.t.Errorf("the agent reads more: %q %q", lines, tail)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(rig.Timeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func calls(tool string, ids ...string) []string {
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q}}`, id, tool)
	}
	return lines
}

// EC-STDIO-009: a server that can't be started. Each request gets an error that says so, and
// then tg-shim exits as a shell would.
func TestServerNotFound(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	plain := h.Path("work/plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		command string
		code    int
	}{
		{"not on the path", "no-such-server", 127},
		{"no such file", h.Path("work/absent"), 127},
		{"not executable", plain, 126},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, h, rig.Options{Command: []string{c.command}})
			p.agent(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			p.agent(calls("echo", "1", "-2")...)
			p.agentReadsErrors(-31011, `"init"`, "1", "-2")
			p.HangUp() // requests are answered until the agent closes its end
			p.ends(c.code, rig.Timeout)
			if text := p.Stderr(); !strings.Contains(text, `server "x"`) || !strings.Contains(text, c.command) {
				t.Errorf("stderr does not say which server could not be started:\n%s", text)
			}
		})
	}
}

// EC-STDIO-010: a server that ends with requests pending, some of them held. Each gets one
// error, and tg-shim exits as the server did.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	for _, c := range []struct {
		name string
		end  func(*pair)
		code int
	}{
		{"with a status", func(p *pair) { p.must(p.Server.Exit(7)) }, 7},
		{"without an error", func(p *pair) { p.must(p.Server.Exit(0)) }, 0},
		{"killed", func(p *pair) { p.Server.Kill() }, 128 + int(syscall.SIGKILL)},
		{"in the middle of a line", func(p *pair) {
			p.must(p.Server.Send([]byte(`{"jsonrpc":"2.0","id":1,"result":{"conten`)))
			p.must(p.Server.Exit(1))
		}, 1},
		{"only its output", func(p *pair) { p.must(p.Server.CloseOutput()) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startPair(t, h, rig.Options{})
			p.agent(calls("echo", "1", `"b"`)...)
			p.agent(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
			p.serverReads(calls("echo", "1", `"b"`)...)
			p.serverReads(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
			p.agent(calls("held", "4")...)
			p.server(`{"jsonrpc":"2.0","id":"ask","method":"roots/list"}`)
			p.agentReads(`{"jsonrpc":"2.0","id":"ask","method":"roots/list"}`)
			c.end(p)
			p.agentReadsErrors(-31012, "1", `"b"`, "3", "4")
			p.ends(c.code, rig.Timeout)
		})
	}
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// EC-STDIO-027: an incomplete line is not forwarded until it is complete.
func TestPartialLines(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	const request, answer = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{"é":"日本語"}}`
	for i := range request {
		p.must(p.Send([]byte(request[i : i+1])))
	}
	// A notification of the other side shows that tg-shim still works.
	const tick = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	p.server(tick)
	p.agentReads(tick)
	if n := p.Server.Len(); n > 0 {
		t.Errorf("%d lines crossed before the first was whole", n)
	}
	p.agent("")
	p.serverReads(request)
	for i := range len(answer) {
		p.must(p.Server.Send([]byte{answer[i]}))
	}
	const tock = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	p.agent(tock)
	p.serverReads(tock)
	if lines, tail := p.Agent.Since(p.seen); len(lines)+len(tail) > 0 {
		t.Errorf("the agent got %q %q of a line that is not whole", lines, tail)
	}
	p.server("")
	p.agentReads(answer)
}

// EC-STDIO-028: a server's standard error is passed on line by line, escaped for a terminal
// unless the configuration wants it raw.
func TestServerStderr(t *testing.T) {
	t.Parallel()
	const said = "plain\n\x1b[2Jcleared \x07\xff \u202etxt.exe\r\nlast without its end"
	for _, c := range []struct {
		name, option string
		terminal     bool
		want         string
	}{
		{"escaped on a terminal", "escaped", true, `plain` + "\n" + `\x1b[2Jcleared \x07\xff \u202etxt.exe` + "\n" + "last without its end\n"},
		{"raw on a terminal", "raw", true, said},
		{"no terminal", "escaped", false, said},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFixture(t, strings.Replace(forwardAll, "reattach: 1s", "stderr: "+c.option, 1))
			h.StartDaemon()
			p := startPair(t, h, rig.Options{Terminal: c.terminal})
			p.must(p.Server.Complain([]byte(said)))
			p.must(p.Server.Exit(0))
			p.ends(0, rig.Timeout)
			if got := p.Stderr(); got != c.want {
				t.Errorf("stderr is %q, want %q", got, c.want)
			}
		})
	}
}

// EC-STDIO-030: the version that agent and server negotiate, or fail to, is up to them.
func TestVersionsPassThrough(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	for i, answer := range []string{
		`"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old","version":"0"}}`,
		`"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05"],"requested":"2099-01-01"}}`,
	} {
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`, i)
		p.agent(request)
		p.serverReads(request)
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, i, answer)
		p.server(answer)
		p.agentReads(answer)
	}
}

// EC-STDIO-014, EC-STDIO-015: a peer that writes forever without a line end costs no memory,
// and what follows its line is handled.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.Shipped = true
	h.StartDaemon()
	const rounds, most = 64, 40 << 20
	block := bytes.Repeat([]byte(`{"a":[`), 1<<20/6)
	for _, c := range []struct {
		name  string
		write func(*pair, []byte) error
	}{
		{"agent", func(p *pair, b []byte) error { return p.Send(b) }},
		{"server", func(p *pair, b []byte) error { return p.Server.Send(b) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startPair(t, h, rig.Options{Shipped: true})
			for range rounds {
				p.must(c.write(p, block))
			}
			p.must(c.write(p, []byte("\n")))
			p.agent(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			p.serverReads(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			p.server(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			peak, err := p.PeakMemory()
			if err != nil {
				t.Skip("no memory to be read:", err)
			}
			t.Logf("%d MiB without a line end: %d MiB resident at the peak", rounds, peak>>20)
			if peak > most {
				t.Errorf("%d MiB resident at the peak, want %d at most", peak>>20, most>>20)
			}
		})
	}
}

// Requests that the agent sent before the server ended are answered even if they were not read
// yet: an agent that sends requests while the server starts has written more by then than was
// read. tg-shim once exited with the requests still in its pipe.
func TestServerEndsUnread(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	p.Signal(syscall.SIGSTOP)
	var ids []string
	for i := range 100 { // of all kinds, and less than a pipe holds
		ids = append(ids, fmt.Sprint(i))
		p.agent(calls([]string{"echo", "held", "denied", strings.Repeat("x", 1000)}[i%4], ids[i])...)
	}
	p.must(p.Server.Exit(5))
	if !p.Server.Gone(rig.Timeout) {
		t.Fatal("the server stays")
	}
	p.Signal(syscall.SIGCONT)
	for range ids {
		p.next()
	}
	lines, _ := p.Agent.Since(0)
	answered := map[string]bool{}
	for _, line := range lines {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(line), `{"jsonrpc":"2.0","id":`), ",")
		if refused := strings.Contains(string(line), `"error":{"code":-31012,`) || strings.Contains(string(line), `"isError":true`); !refused || answered[id] {
			t.Errorf("the agent reads %s", line)
		}
		answered[id] = true
	}
	p.ends(5, rig.Timeout)
}

// An agent that keeps sending requests while the server ends gets one answer to each request
// that was read.
func TestServerEndsWhileAsked(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	p.agent(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	p.serverReads(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	p.Server.Kill()
	sent := 1
	for p.Agent.Len() == 0 || sent < 50 { // the first answer shows that the server has ended
		if p.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", sent)) != nil {
			break
		}
		sent++
	}
	if _, ok := p.Wait(rig.Timeout); !ok {
		t.Fatal("the shim does not end")
	}
	eventually(t, "the agent's end of the pipe is closed", p.Agent.Ended)
	lines, _ := p.Agent.Since(0)
	answered := map[string]bool{}
	for _, line := range lines {
		id, _, ok := strings.Cut(strings.TrimPrefix(string(line), `{"jsonrpc":"2.0","id":`), `,"error":{"code":-31012,`)
		if !ok || answered[id] {
			t.Errorf("the agent reads %s", line)
		}
		answered[id] = true
	}
	t.Logf("%d of %d requests were answered", len(answered), sent)
	for i := range len(answered) { // those that were not read are the last
		if !answered[fmt.Sprint(i)] {
			t.Errorf("request %d has no answer, and later ones have", i)
		}
	}
}
