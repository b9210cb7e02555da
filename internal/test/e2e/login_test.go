package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/thoughtgate/thoughtgated/internal/test/oauth"
)

// loginCanary begins each token, code and client secret of the issuer.
const loginCanary = "CANARY-7f3a9c-"

// cloud is a server behind an address that wants a login, and its issuer.
type cloud struct {
	*oauth.Server
	wrongIssuer atomic.Bool // its answers to the browser name another issuer
}

// newCloud starts a server whose tool write_note needs the scope write.
func newCloud(t *testing.T, life time.Duration) *cloud {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "cloud", Version: "1"}, nil)
	for _, name := range []string{"read_note", "write_note"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " from afar"}}}, nil, nil
		})
	}
	behind := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	c := &cloud{Server: &oauth.Server{Canary: loginCanary, Life: life, Scopes: []string{"read"}, Iss: true}}
	c.Behind = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && bytes.Contains(body, []byte(`"write_note"`)) && !slices.Contains(strings.Fields(r.Header.Get("Granted-Scope")), "write") {
			c.Insufficient(w, "write")
			return
		}
		behind.ServeHTTP(w, r)
	})
	c.Answer = func(redirect url.Values) {
		if c.wrongIssuer.Load() {
			redirect.Set("iss", "https://other.example")
		}
	}
	h := httptest.NewServer(c)
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	c.Origin = h.URL
	return c
}

// cloudConfig writes a configuration with servers of one address.
func (h *fixture) cloudConfig(c *cloud, ids ...string) string {
	servers := map[string]any{}
	for _, id := range ids {
		servers[id] = map[string]any{"type": "http", "url": c.Origin + "/mcp"}
	}
	text, err := json.MarshalIndent(map[string]any{"mcpServers": servers}, "", "  ")
	if err != nil {
		h.t.Fatal(err)
	}
	return h.write("work/mcp.json", string(text), 0o600)
}

// person logs in as one at a terminal does, with a browser that follows the address, or enters the code. It may run beside the
// test, so it returns errors.
func (h *fixture) person(c *cloud, id string) (printed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(h.bin, "tgctl"), "login", id, "--no-browser", "--json")
	cmd.Env, cmd.Dir = h.env, h.path("work")
	var out, stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		fmt.Fprintln(&out, lines.Text())
		var event struct {
			Prompt *struct{ Address, Code string }
		}
		switch {
		case json.Unmarshal(lines.Bytes(), &event) != nil || event.Prompt == nil:
		case event.Prompt.Code != "":
			c.ApproveDevice(event.Prompt.Code)
		default:
			if answer, err := http.Get(event.Prompt.Address); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}
	}
	err = cmd.Wait()
	if err != nil {
		err = fmt.Errorf("tgctl login %s: %w: %s", id, err, stderr.String())
	}
	return out.String() + stderr.String(), err
}

// askedToLogIn waits until the only question is one of a login, and returns it.
func (h *fixture) askedToLogIn(why string) question {
	h.t.Helper()
	var q question
	if !eventually(func() bool {
		all := h.questions()
		if len(all) != 1 {
			return false
		}
		q = all[0]
		return true
	}, patience) {
		h.t.Fatalf("nobody is asked to log in: %+v", h.questions())
	}
	if !strings.Contains(q.Reason, q.Server+" wants a login: ") || !strings.Contains(q.Reason, why) || !strings.Contains(q.Reason, "tgctl login "+q.Server) {
		h.t.Errorf("the question is %q, want %q in it", q.Reason, why)
	}
	return q
}

// A server that wants a login has its agent wait: at the start, for more scopes, after the issuer has ended the
// login, and after a logout. A wrong issuer is refused, and who denies the question denies the call. And no token
// is found anywhere, while and after all that.
func TestLogin(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	c := newCloud(t, 6*time.Second)
	config := h.cloudConfig(c, "github")
	h.startDaemon()
	var printed bytes.Buffer
	note := func(text string) string { printed.WriteString(text); return text }

	// The first message waits.
	loggedIn := make(chan error, 1)
	go func() {
		defer close(loggedIn) // also if a command fails the test
		if !eventually(func() bool {
			return strings.Contains(h.run(nil, "tgctl", "approvals", "list", "--json", "--no-start").stdout, "wants a login")
		}, patience) {
			loggedIn <- fmt.Errorf("nobody is asked to log in")
			return
		}
		q := h.run(nil, "tgctl", "approvals", "approve", "A-1")
		if q.code == 0 || !strings.Contains(q.stderr, "tgctl login github") {
			t.Errorf("approve: exit %d, %s", q.code, q.stderr)
		}
		ps := note(h.run(nil, "tgctl", "ps").stdout)
		if !strings.Contains(ps, "wants a login") || !strings.Contains(ps, "tgctl login github") {
			t.Errorf("tgctl ps: %s", ps)
		}
		if status := note(h.run(nil, "tgctl", "status").stdout); !strings.Contains(status, "github wants a login") {
			t.Errorf("tgctl status: %s", status)
		}
		note(h.run(nil, "tgctl", "login").stdout)
		text, err := h.person(c, "github")
		note(text)
		loggedIn <- err
	}()
	a := h.wrap(config)
	if err := <-loggedIn; err != nil || t.Failed() {
		t.Fatal(err)
	}
	if r := a.call("github", "read_note", nil); r.Text != "read_note from afar" {
		t.Errorf("after the login: %+v", r)
	}
	if list := note(h.tgctl("login")); !strings.Contains(list, "github") || !strings.Contains(list, "ready") {
		t.Errorf("tgctl login: %s", list)
	}

	// Tokens are renewed, and nobody is asked for that.
	if !eventually(func() bool {
		if r := a.call("github", "read_note", nil); r.Text != "read_note from afar" {
			t.Errorf("while tokens are renewed: %+v", r)
		}
		return c.Count("token refresh_token") > 1
	}, patience) {
		t.Error("no token was renewed")
	}

	// A call waits for a login, and goes on after it.
	waits := func(tool, why string, login func()) reply {
		t.Helper()
		_, result := a.begin(order{Server: "github", Tool: tool})
		h.askedToLogIn(why)
		login()
		return a.await(result, tool)
	}
	logIn := func() {
		text, err := h.person(c, "github")
		if note(text); err != nil {
			t.Error(err)
		}
	}
	if r := waits("write_note", "more scopes: write", logIn); r.Text != "write_note from afar" {
		t.Errorf("with more scopes: %+v", r)
	}
	c.Revoke(true)
	// Another issuer's answer logs nobody in, and its code is sent to nobody.
	wrongFirst := func() {
		c.wrongIssuer.Store(true)
		codes := c.Count("token authorization_code")
		if text, err := h.person(c, "github"); err == nil || !strings.Contains(text, "another issuer") || c.Count("token authorization_code") != codes {
			t.Errorf("a wrong issuer: %v, %s", err, note(text))
		}
		c.wrongIssuer.Store(false)
		logIn()
	}
	if r := waits("write_note", "github", wrongFirst); r.Text != "write_note from afar" {
		t.Errorf("after a revocation: %+v", r)
	}
	if out := note(h.tgctl("logout", "github")); !strings.Contains(out, "logged out of github") || c.Count("revoke") != 1 {
		t.Errorf("logout: %s; revoked %d times", out, c.Count("revoke"))
	}
	deny := func() { note(h.tgctl("approvals", "deny", "--all-from", "github", "--reason", "not now")) }
	if r := waits("read_note", "nobody has logged in", deny); !strings.Contains(r.Error, "tgctl login github") || !strings.Contains(r.Error, "not now") {
		t.Errorf("after a denial: %+v", r)
	}
	if r := h.run(nil, "tgctl", "login", "gitlab", "--no-browser"); r.code == 0 || !strings.Contains(r.stderr, "gitlab") || !strings.Contains(r.stderr, "known servers behind an address: github") {
		t.Errorf("an unknown server: exit %d, %s", r.code, r.stderr)
	}
	logIn() // for what is looked for below
	a.call("github", "read_note", nil)

	// No process of ours has a token in its arguments or its environment.
	for _, pid := range h.pids() {
		for _, name := range []string{"cmdline", "environ"} {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err == nil && bytes.Contains(raw, []byte(loginCanary)) {
				t.Errorf("%s of %s has a token", name, commandLine(pid))
			}
		}
	}
	for _, args := range [][]string{
		{"audit", "list", "--json", "--limit", "0"}, {"approvals", "list", "--all", "--json"}, {"status", "--json"}, {"ps", "--json"}, {"sessions", "--json"},
		{"login", "--json"}, {"servers", "--json"}, {"metrics"},
	} {
		note(h.tgctl(args...))
	}
	doctor := note(h.run(nil, "tgctl", "doctor").stdout)
	if !strings.Contains(doctor, "login.file") {
		t.Errorf("doctor does not say where tokens lie:\n%s", doctor)
	}
	for _, format := range []string{"jsonl", "ocsf"} {
		h.tgctl("audit", "export", "--format", format, "-o", h.path("state/export."+format))
	}
	h.tgctl("audit", "report", "-o", h.path("state/report.html"))
	a.leave()
	log := h.log()
	for verdict, want := range map[string]int{"logged_in": 4, "logged_out": 1} {
		if n := count(log, "login", "", verdict); n != want {
			t.Errorf("%d records of %s, want %d", n, verdict, want)
		}
	}

	// The daemon crashes, and leaves no core.
	if err := h.daemon.cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	<-h.daemon.ended
	if status, ok := h.daemon.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.CoreDump() {
		t.Errorf("the daemon has left a core: %v", h.daemon.cmd.ProcessState)
	}
	h.daemon = nil
	h.write("state/printed", printed.String(), 0o600)
	stored := 0
	err := filepath.WalkDir(h.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, h.bin) {
			return err
		}
		raw, err := os.ReadFile(path)
		for form, secret := range forms(loginCanary) {
			if bytes.Contains(raw, secret) {
				t.Errorf("%s holds a token %s", path, form)
			}
		}
		if name := filepath.Base(path); name == "logins.json" || name == "logins.key" {
			stored++
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
			}
		}
		return err
	})
	if err != nil || stored != 2 {
		t.Errorf("%d files of the vault, %v", stored, err)
	}
	// The next daemon has the login.
	h.startDaemon()
	if list := h.tgctl("login"); !strings.Contains(list, "stored") {
		t.Errorf("tgctl login of the next daemon: %s", list)
	}
}

// Twenty sessions with one server need one login, by a code that is entered elsewhere, and one of them renews the
// token for all.
func TestLoginOfTwentySessions(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	c := newCloud(t, 40*time.Second)
	c.Device = true // the browser is elsewhere
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("s%02d", i))
	}
	config := h.cloudConfig(c, ids...)
	h.startDaemon()
	// The login is there before the first session: the file of the agent names the address.
	if text, err := h.person(c, c.Origin+"/mcp"); err != nil {
		t.Fatal(err, text)
	}
	a := h.wrap(config)
	for before := c.Count("token refresh_token"); c.Count("token refresh_token") == before; {
		var calls sync.WaitGroup
		for _, id := range ids {
			_, result := a.begin(order{Server: id, Tool: "read_note"})
			calls.Go(func() {
				if r := <-result; r.Text != "read_note from afar" {
					t.Errorf("%s: %+v", id, r)
				}
			})
		}
		calls.Wait()
		if n := c.Count("token refresh_token"); n > before+1 {
			t.Errorf("%d renewals at once", n-before)
		}
		if t.Failed() {
			break
		}
	}
	if all := h.questions(); len(all) > 0 || c.Count("authorize") > 0 || c.Count("device") != 1 {
		t.Errorf("questions %+v; %d logins by a browser, %d by a code", all, c.Count("authorize"), c.Count("device"))
	}
	if code := a.leave(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
