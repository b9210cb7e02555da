package agentconf

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// layout draws the layout of a file: the blanks between its parts, comments if the agent
// accepts them, and the text at its ends.
type layout struct {
	t                      *rapid.T
	newline, indent        string
	comments, compact      bool
	mark, end, beforeColon string
	remotes                bool // some servers are behind an address
}

func drawLayout(t *rapid.T, comments bool) *layout {
	return &layout{
		t:           t,
		newline:     rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "newline"),
		indent:      rapid.SampledFrom([]string{"", "  ", "\t", "   "}).Draw(t, "indent"),
		comments:    comments && rapid.Bool().Draw(t, "comments"),
		compact:     rapid.Bool().Draw(t, "compact"),
		mark:        rapid.SampledFrom([]string{"", "\ufeff"}).Draw(t, "mark"),
		end:         rapid.SampledFrom([]string{"", "\n", "\r\n", "\n\n  "}).Draw(t, "end"),
		beforeColon: rapid.SampledFrom([]string{"", "", " "}).Draw(t, "colon"),
	}
}

// gap draws the text before a part at some depth.
func (l *layout) gap(depth int) string {
	if l.compact {
		return ""
	}
	text := l.newline + strings.Repeat(l.indent, depth)
	if l.comments {
		text = rapid.SampledFrom([]string{"", "", " // a \"note\", {", " /* [ */"}).Draw(l.t, "comment") + text
	}
	return text
}

func (l *layout) list(open, closing string, depth int, parts []string) string {
	if len(parts) == 0 {
		return open + rapid.SampledFrom([]string{"", " "}).Draw(l.t, "nothing") + closing
	}
	var b strings.Builder
	b.WriteString(open)
	for i, part := range parts {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(l.gap(depth+1) + part)
	}
	if l.comments && rapid.Bool().Draw(l.t, "trailing") {
		b.WriteString(",")
	}
	return b.String() + l.gap(depth) + closing
}

func (l *layout) member(name, value string) string {
	space := " "
	if l.compact {
		space = ""
	}
	return name + l.beforeColon + ":" + space + value
}

var (
	names  = []string{`"files"`, `"ü ✓ 😀"`, `"a/b~c"`, `"\u0066oo"`, `"--server-id"`, `"12"`, `"__proto__"`}
	values = []string{`"npx"`, `"-y"`, `"${HOME}/docs"`, `"${A:-b}"`, `"--"`, `"für \"mich\""`, `"\\\u0000\/"`, `"😀"`, `""`, `"--server-id"`, `"\ud83d"`}
)

// remote draws a server behind an address.
func (l *layout) remote(depth int) string {
	parts := []string{l.member(`"url"`, rapid.SampledFrom([]string{`"https://x.test/a?b=c"`, `"http:\/\/ü.test"`}).Draw(l.t, "url"))}
	if rapid.Bool().Draw(l.t, "type") {
		parts = append(parts, l.member(`"type"`, `"ht\u0074p"`))
	}
	if rapid.Bool().Draw(l.t, "headers") {
		var headers []string
		for i := range rapid.IntRange(0, 2).Draw(l.t, "how many") {
			headers = append(headers, l.member(fmt.Sprintf(`"H%d"`, i), rapid.SampledFrom(values).Draw(l.t, "header")))
		}
		parts = append(parts, l.member(`"headers"`, l.list("{", "}", depth+1, headers)))
	}
	for _, more := range []string{`"timeout"`, `"env"`, `"oauth"`, `"args"`, `"tools"`} {
		if rapid.Bool().Draw(l.t, more) {
			parts = append(parts, l.member(more, map[string]string{`"timeout"`: "6.0E4", `"env"`: l.list("{", "}", depth+1, []string{l.member(`"K"`, `"v"`)}), `"oauth"`: "{}", `"args"`: "null", `"tools"`: "[ 1.0 ]"}[more]))
		}
	}
	return l.list("{", "}", depth, rapid.Permutation(parts).Draw(l.t, "order"))
}

func (l *layout) server(depth int) string {
	if l.remotes && rapid.Bool().Draw(l.t, "remote") {
		return l.remote(depth)
	}
	pick := rapid.SampledFrom(values)
	command := rapid.SampledFrom([]string{`"npx"`, `"/opt/Ünï/x y"`, `"./t"`, `"n\u0070x"`, `"tgshim"`}).Draw(l.t, "command")
	parts := []string{l.member(`"command"`, command)}
	switch rapid.IntRange(0, 3).Draw(l.t, "args") {
	case 1:
		parts = append(parts, l.member(`"args"`, "null"))
	case 2, 3:
		parts = append(parts, l.member(`"args"`, l.list("[", "]", depth+1, rapid.SliceOfN(pick, 0, 4).Draw(l.t, "args"))))
	}
	switch rapid.IntRange(0, 3).Draw(l.t, "env") {
	case 1:
		parts = append(parts, l.member(`"env"`, "null"))
	case 2, 3:
		var env []string
		for i := range rapid.IntRange(0, 3).Draw(l.t, "variables") {
			env = append(env, l.member(fmt.Sprintf(`"K%d"`, i), pick.Draw(l.t, "variable")))
		}
		parts = append(parts, l.member(`"env"`, l.list("{", "}", depth+1, env)))
	}
	if rapid.Bool().Draw(l.t, "more") {
		parts = append(parts, l.member(`"timeout"`, "6.0E4"))
	}
	return l.list("{", "}", depth, rapid.Permutation(parts).Draw(l.t, "order"))
}

// listServer draws a server whose command is a list.
func (l *layout) listServer(depth int) string {
	words := append([]string{`"npx"`}, rapid.SliceOfN(rapid.SampledFrom(values), 0, 4).Draw(l.t, "words")...)
	parts := []string{l.member(`"type"`, `"local"`), l.member(`"command"`, l.list("[", "]", depth+1, words))}
	switch rapid.IntRange(0, 2).Draw(l.t, "environment") {
	case 1:
		parts = append(parts, l.member(`"environment"`, l.list("{", "}", depth+1, nil)))
	case 2:
		parts = append(parts, l.member(`"environment"`, l.list("{", "}", depth+1, []string{l.member(`"K"`, `"{env:K}"`)})))
	}
	if rapid.Bool().Draw(l.t, "more") {
		parts = append(parts, l.member(`"timeout"`, "6.0E4"), l.member(`"cwd"`, `"sub"`))
	}
	return l.list("{", "}", depth, rapid.Permutation(parts).Draw(l.t, "order"))
}

func (l *layout) file() string {
	var servers []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 5, rapid.ID).Draw(l.t, "servers") {
		servers = append(servers, l.member(name, l.server(2)))
	}
	parts := []string{
		l.member(`"mcpServers"`, l.list("{", "}", 1, servers)),
		l.member(`"other"`, l.list("[", "]", 1, []string{"1.0", "null", `{"command": "x"}`})),
	}
	return l.mark + l.list("{", "}", 0, rapid.Permutation(parts).Draw(l.t, "order")) + l.end
}

// For any file, wrapping and restoring returns its bytes.
func TestAnyFileComesBack(t *testing.T) {
	w := newWorld(t)
	env := w.env()
	env.Config = filepath.Join(w.home, "agent.json")
	rapid.Check(t, func(rt *rapid.T) {
		agent := rapid.SampledFrom([]Agent{claudeCode{}, custom{}}).Draw(rt, "agent")
		text := drawLayout(rt, agent == custom{}).file()
		w.write(env.Config, text)
		p, err := NewPlan(agent, env, w.shim)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		defer p.Unlock()
		for _, do := range []func() error{
			func() error { return p.Lock("s") }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
		} {
			if err := do(); err != nil {
				rt.Fatalf("%v\n%s", err, text)
			}
		}
		wrapped := w.read(env.Config)
		drift, err := p.Drift()
		if n := strings.Count(wrapped, w.line().Session); n != len(p.files[0].before) || n == 0 || len(drift) > 0 || err != nil {
			rt.Fatalf("%d entries of %d rewritten, drift %+v, %v:\n%s", n, len(p.files[0].before), drift, err, wrapped)
		}
		// A change of the file disables the shortcut by its digest.
		touched := rapid.Bool().Draw(rt, "touched")
		if touched {
			w.write(env.Config, wrapped+"\n")
			text += "\n"
		}
		if _, err := p.Restore(); err != nil {
			rt.Fatalf("%v\n%s", err, wrapped)
		}
		if got := w.read(env.Config); got != text {
			rt.Fatalf("not the same:\nbefore  %q\nwrapped %q\nafter   %q", text, wrapped, got)
		}
	})
	w.wantClean()
}

// After a restore, a change to the wrapped file has the same effect as if the original had been
// changed.
func TestAnyChangeStays(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		changes := rapid.SliceOfN(rapid.SampledFrom([]func(map[string]any){
			func(v map[string]any) { v["numStartups"] = 7.0 },
			func(v map[string]any) { delete(v, "projects") },
			func(v map[string]any) { dig(v, "mcpServers")["new"] = map[string]any{"command": "new"} },
			func(v map[string]any) { delete(dig(v, "mcpServers"), "notes") },
			func(v map[string]any) { dig(v, "mcpServers", "github")["timeout"] = 1.0 },
			func(v map[string]any) { dig(v, "mcpServers", "github", "env")["NEW"] = "${NEW}" },
			func(v map[string]any) { dig(v, "mcpServers")["sentry"] = map[string]any{"command": "sentry"} },
			func(v map[string]any) {
				github := dig(v, "mcpServers", "github")
				github["args"] = append(github["args"].([]any), "last")
			},
		}), 1, 6).Draw(rt, "changes")
		change := func(v map[string]any) {
			for _, c := range changes {
				c(v)
			}
		}
		fixture(w)
		original := w.read(w.state())
		p := w.plan()
		defer p.Unlock()
		for _, do := range []func() error{
			func() error { return p.Lock("s") }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
		} {
			if err := do(); err != nil {
				rt.Fatal(err)
			}
		}
		w.write(w.state(), reformat(t, w.read(w.state()), change))
		if _, err := p.Restore(); err != nil {
			rt.Fatal(err)
		}
		same := func(map[string]any) {}
		if got, want := reformat(t, w.read(w.state()), same), reformat(t, original, change); got != want {
			rt.Fatalf("\n got %s\nwant %s", got, want)
		}
	})
	w.wantClean()
}

// busyAgent rewrites its file all the time under its own lock, and counts the writes in the
// file.
func busyAgent(w *world, count *atomic.Int32, stop <-chan struct{}) error {
	for writes := 0; ; count.Store(int32(writes)) {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := os.Mkdir(w.state()+".lock", 0o755); err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		text, err := os.ReadFile(w.state())
		if err != nil {
			return err
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("the agent read %q: %w", text, err)
		}
		if got, _ := v["writes"].(float64); int(got) != writes {
			return fmt.Errorf("write %d is lost: the file says %v", writes, v["writes"])
		}
		writes++
		v["writes"] = writes
		text, err = json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(w.state()+".tmp", text, 0o644); err != nil {
			return err
		}
		if err := os.Rename(w.state()+".tmp", w.state()); err != nil {
			return err
		}
		if err := os.Remove(w.state() + ".lock"); err != nil {
			return err
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// An agent that writes its file all the time loses none of its writes, and no line of ours
// remains.
//
//gotest:race several change the same files
func TestBusyAgent(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	stop, done := make(chan struct{}), make(chan struct{})
	var writes atomic.Int32
	var failed error
	go func() {
		defer close(done)
		failed = busyAgent(w, &writes, stop)
	}()
	for i := 0; i < 15 || writes.Load() < 30; i++ {
		p, _ := w.wrapped()
		if got := w.read(w.state()); strings.Count(got, w.line().Session) != 2 {
			t.Errorf("while wrapped: %s", got)
		}
		w.restore(p)
		if got := w.read(w.state()); strings.Contains(got, "THOUGHTGATE") || strings.Contains(got, shimName) {
			t.Errorf("after restore: %s", got)
		}
	}
	close(stop)
	<-done
	if failed != nil {
		t.Fatal(failed)
	}
	same := func(map[string]any) {}
	want := reformat(t, twoServers, func(v map[string]any) { v["writes"] = writes.Load() })
	if got := reformat(t, w.read(w.state()), same); got != want {
		t.Errorf("after %d writes: %s", writes.Load(), got)
	}
	w.wantClean()
}
