package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b.txt")
	for _, content := range []string{"one\ntwo\nthree", "one\ntwo\nthree"} { // the second time it exists
		if err := writeText(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		line, limit int
		want        string
	}{{-1, -1, "one\ntwo\nthree"}, {0, 1, "one\n"}, {1, 1, "one\n"}, {2, -1, "two\nthree"}, {3, 5, "three"}, {4, 1, ""}, {2, 0, ""}} {
		if got, err := readText(path, test.line, test.limit); got != test.want || err != nil {
			t.Errorf("from %d, %d lines: %q, %v; want %q", test.line, test.limit, got, err, test.want)
		}
	}

	// A file keeps its mode, and a link stays a link.
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("a/b.txt", link); err != nil {
		t.Fatal(err)
	}
	if err := writeText(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if to, err := os.Readlink(link); to != "a/b.txt" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if got, _ := readText(link, -1, -1); got != "new" {
		t.Errorf("read %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "a", ".thoughtgate-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	at := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink("nowhere", dangling); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "not a regular file", filepath.Join(dir, "none"): "no such file", os.DevNull: "not a regular file",
		at("binary", "\xff\xfe"): "not UTF-8", at("long", strings.Repeat("x", mostText+1)): "longer than",
	} {
		if _, err := readText(path, -1, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("read %s: %v, want %q", path, err, want)
		}
	}
	for path, want := range map[string]string{dir: "not a regular file", dangling: "dangling", at("file", "") + "/below": "not a directory"} {
		if err := writeText(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("write %s: %v, want %q", path, err, want)
		}
	}
}

func TestOutput(t *testing.T) {
	o := output{most: 5}
	for _, text := range []string{"ab", "cd", "€f", strings.Repeat("-", 9000), "x€yz"} {
		_, _ = o.Write([]byte(text))
	}
	// The last five bytes begin inside the euro sign.
	if got, cut := o.read(); got != "€yz" && got != "yz" || !cut {
		t.Errorf("got %q, cut %v", got, cut)
	}
	short := output{most: 5}
	_, _ = short.Write([]byte("a\xff"))
	if got, cut := short.read(); got != "a\uFFFD" || cut {
		t.Errorf("got %q, cut %v", got, cut)
	}
}

// Too many messages that were not passed on block the decoder until one is passed on or the run
// ends.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancel(t.Context())
		p := newPaced(over, rpc.TypedJSON{}, func(m *rpc.Message) bool { return m.Kind == rpc.Part })
		read := 0
		done := make(chan struct{})
		frame := []byte(`{"type":"stream","id":"a","delta":"x"}`)
		go func() {
			defer close(done)
			for range maxPendingUpdates + 20 {
				var m rpc.Message
				if err := p.Decode(frame, &m); err != nil {
					t.Error(err)
				}
				read++
			}
			p.dropped() // the last one was not passed on
			var m rpc.Message
			if err := p.Decode([]byte(`{"type":"response","id":"a","result":1}`), &m); err != nil {
				t.Error(err)
			}
			p.dropped() // the last one was not counted
		}()
		synctest.Wait()
		if read != maxPendingUpdates {
			t.Errorf("read %d, want %d", read, maxPendingUpdates)
		}
		for range 10 {
			p.passed([]byte(`"x"`))
		}
		synctest.Wait()
		if read != maxPendingUpdates+10 {
			t.Errorf("read %d, want %d", read, maxPendingUpdates+10)
		}
		end()
		<-done
		if p.n != maxPendingUpdates+9 || p.bytes != 3*(maxPendingUpdates+9) {
			t.Errorf("%d messages of %d bytes are taken to be waiting", p.n, p.bytes)
		}
	})
}

func TestBare(t *testing.T) {
	got, err := bare([]byte(`{"sessionId":"s", "path" : "/a\u0062", "_meta":{"x":1},"line": 3 }`))
	if want := `{"path":"/a\u0062","line":3}`; string(got) != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, params := range []string{"", "[]", "null"} {
		if got, err := bare([]byte(params)); err == nil {
			t.Errorf("%q: %s", params, got)
		}
	}
}

func TestPermissionOptions(t *testing.T) {
	kind, call, options, err := readPermission([]byte(`{"toolCall":{"toolCallId":"1","status":"pending","title":"x"},"options":[{"optionId":"a","kind":"allow_always"},{"optionId":"\"q","kind":"allow_once"}]}`))
	if kind != "other" || string(call) != `{"title":"x"}` || err != nil {
		t.Errorf("kind %q, call %s, %v", kind, call, err)
	}
	if got := string(chosen(options, allowOnce)); got != `{"outcome":{"outcome":"selected","optionId":"\"q"}}` {
		t.Errorf("a yes is %s", got)
	}
	if got := string(chosen(options, rejectOnce)); got != string(cancelledOutcome) {
		t.Errorf("a no without an option is %s", got)
	}
	for _, params := range []string{`{"toolCall":{"kind":"A b"},"options":[]}`, `{"toolCall":1,"options":[]}`, `{"toolCall":{"kind":1},"options":[]}`, `{"toolCall":{},"options":{}}`, `{"toolCall":{},"options":[1]}`} {
		if _, _, _, err := readPermission([]byte(params)); err == nil {
			t.Errorf("%s was read", params)
		}
	}
}

// The agent sees only the variables it is given, and its servers are behind tg-shim, in its
// session.
func TestEnvironmentAndServers(t *testing.T) {
	h := newFixture(t)
	t.Setenv("SECRET", "s")
	t.Setenv("LANG", "of the daemon")
	a := &config.Agent{
		Command: []string{"./fake-acp"}, Protocol: config.ProtocolACP, Env: map[string]string{"MODE": "quiet"}, Pass: []string{"KEY", "ABSENT"},
		Servers: map[string]*config.AgentServer{"notes": {Command: []string{"./notes", "-v"}, Env: map[string]string{"A": "b"}}},
	}
	o, err := newRun(h.Runs, h.options.Config(), a, Request{Name: "x", Prompt: "x", Cwd: h.dir, Env: map[string]string{"KEY": "k", "PATH": "/bin"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KEY=k", "PATH=/bin", "MODE=quiet", "LANG=of the daemon", "THOUGHTGATE_ACTIVE=1", "THOUGHTGATE_SESSION=" + o.session} {
		if !slices.Contains(o.env, want) {
			t.Errorf("the environment lacks %s: %q", want, o.env)
		}
	}
	if i := slices.IndexFunc(o.env, func(e string) bool { return strings.HasPrefix(e, "SECRET=") || strings.HasPrefix(e, "ABSENT=") }); i >= 0 {
		t.Errorf("the environment has %s", o.env[i])
	}
	s := o.servers[0]
	if want := []string{"--server-id", "notes", "--", filepath.Join(h.dir, "notes"), "-v"}; s.Command != "/x/tg-shim" || !slices.Equal(s.Args, want) {
		t.Errorf("the server is started by %s %q, want %q", s.Command, s.Args, want)
	}
	if want := []variable{{"A", "b"}, {"THOUGHTGATE_SESSION", o.session}, {"THOUGHTGATE_SOCKET", "/x/shim.sock"}}; !slices.Equal(s.Env, want) {
		t.Errorf("with %v, want %v", s.Env, want)
	}
}
