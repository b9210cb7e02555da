package login

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func newConsole(socket string) *consoletest.Console {
	return consoletest.New(socket, Command, LogoutCommand)
}

const address = "https://accounts.example/authorize?client_id=x&state=y"

func events(code string) []*pb.LoginEvent {
	return []*pb.LoginEvent{
		{Prompt: &pb.LoginPrompt{Address: address, Host: "accounts.example", Issuer: "https://accounts.example", Code: code}},
		{Done: &pb.LoginDone{Issuer: "https://accounts.example", Scopes: []string{"read", "w\x1b[2J"}, Expires: consoletest.At(time.Hour), Renews: true}},
	}
}

func someLogins() *pb.ListLoginsResponse {
	return &pb.ListLoginsResponse{Logins: []*pb.LoginState{
		{Server: "github", Address: "https://mcp.example/mcp", Phase: pb.LoginPhase_LOGIN_PHASE_READY, Issuer: "https://accounts.example", Expires: consoletest.At(time.Hour), Renews: true},
		{Server: "evil\x1b[2J", Address: "https://evil.example/\u202e", Phase: pb.LoginPhase_LOGIN_PHASE_WANTED, Reason: "nobody has logged in"},
		{Server: "mail", Address: "https://mail.example", Phase: pb.LoginPhase_LOGIN_PHASE_ENDING, Reason: "its issuer does not renew it", Expires: consoletest.At(2 * time.Hour)},
		{Address: "https://old.example", Phase: pb.LoginPhase_LOGIN_PHASE_STORED},
	}}
}

func TestLogins(t *testing.T) {
	for _, test := range []struct {
		golden string
		fill   func(*consoletest.Daemon)
		args   []string
	}{
		{"list", func(f *consoletest.Daemon) { f.Logins = someLogins() }, []string{"login"}},
		{"list-json", func(f *consoletest.Daemon) { f.Logins = someLogins() }, []string{"login", "--json"}},
		{"list-none", func(*consoletest.Daemon) {}, []string{"login"}},
		{"no-browser", func(f *consoletest.Daemon) { f.Login = events("") }, []string{"login", "github", "--no-browser"}},
		{"code", func(f *consoletest.Daemon) { f.Login = events("WDJB-MJHT") }, []string{"login", "github", "--no-browser"}},
		{"json", func(f *consoletest.Daemon) { f.Login = events("") }, []string{"login", "github", "--no-browser", "--json"}},
		{"logout", func(*consoletest.Daemon) {}, []string{"logout", "github"}},
		{"logout-warning", func(f *consoletest.Daemon) {
			f.Logout = &pb.LogoutResponse{Warning: "the login to server github is removed here, but its issuer was not told, so revoke it there: reach \"accounts.example\"\x1b[2J"}
		}, []string{"logout", "github"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			f := consoletest.Start(t)
			test.fill(f)
			newConsole(f.Socket).LooksLike(t, test.golden, test.args...)
		})
	}
}

// A browser is opened with the address that was checked, and with none that names another host than is shown,
// or is not https.
func TestBrowser(t *testing.T) {
	for what, test := range map[string]struct {
		change func(*pb.LoginPrompt)
		args   []string
		opens  string
	}{
		"the address":    {func(*pb.LoginPrompt) {}, nil, address},
		"another host":   {func(p *pb.LoginPrompt) { p.Host = "github.com" }, nil, ""},
		"a file":         {func(p *pb.LoginPrompt) { p.Address = "file:///etc/passwd" }, nil, ""},
		"plain http":     {func(p *pb.LoginPrompt) { p.Address = "http://accounts.example/authorize" }, nil, ""},
		"an option":      {func(p *pb.LoginPrompt) { p.Address = "--help" }, nil, ""},
		"none is wanted": {func(*pb.LoginPrompt) {}, []string{"--no-browser"}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			opened := filepath.Join(dir, "opened")
			for _, name := range []string{"xdg-open", "open"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nprintf %s \"$*\" >"+opened+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			f := consoletest.Start(t)
			f.Login = events("")
			test.change(f.Login[0].Prompt)
			c := newConsole(f.Socket)
			code := c.Run(t, append([]string{"login", "github"}, test.args...)...)
			got, _ := os.ReadFile(opened)
			if string(got) != test.opens {
				t.Errorf("opened %q, want %q", got, test.opens)
			}
			if refused := test.opens == "" && test.args == nil; (code != 0) != refused {
				t.Errorf("exit %d: %s", code, c.Err.String())
			}
		})
	}
}

// A server whose address the daemon does not know is looked up in the files of the agents here. An address that
// only a project's file names is said to be one.
func TestLookUp(t *testing.T) {
	for what, test := range map[string]struct {
		own, project string
		want         *pb.LoginServer // nil if nobody logs in
		says         string
	}{
		"the person's file":  {own: `"github":{"url":"https://a.example/mcp"}`, want: &pb.LoginServer{Id: "github", Address: "https://a.example/mcp"}},
		"a project's file":   {project: `"github":{"url":"https://p.example/mcp"}`, want: &pb.LoginServer{Id: "github", Address: "https://p.example/mcp", Project: true}, says: "p.example"},
		"both, the same":     {own: `"github":{"url":"https://a.example/mcp"}`, project: `"github":{"url":"https://a.example/mcp"}`, want: &pb.LoginServer{Id: "github", Address: "https://a.example/mcp"}},
		"both, another":      {own: `"github":{"url":"https://a.example/mcp"}`, project: `"github":{"url":"https://p.example/mcp"}`, says: "ambiguous"},
		"none":               {own: `"gitlab":{"url":"https://a.example/mcp"}`, says: "not known"},
		"an unset variable":  {own: `"github":{"url":"https://${env:NO_SUCH_HOST}/mcp"}`, says: "NO_SUCH_HOST"},
		"one with a command": {own: `"github":{"command":"github-mcp"}`, says: "not known"},
	} {
		t.Run(what, func(t *testing.T) {
			home := consoletest.NewHome(t)
			home.Write(".cursor/mcp.json", `{"mcpServers":{`+test.own+`}}`, 0o600)
			if test.project != "" {
				home.Write("project/.cursor/mcp.json", `{"mcpServers":{`+test.project+`}}`, 0o600)
			} else if err := os.MkdirAll(filepath.Join(home.Dir, "project"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Chdir(filepath.Join(home.Dir, "project"))
			f := consoletest.Start(t)
			f.Login, f.LoginErr = events(""), client.NewError(client.ReasonNotFound, "server github is not known")
			c := newConsole(f.Socket)
			c.Env["HOME"] = home.Dir
			code := c.Run(t, "login", "github", "--no-browser")
			if !strings.Contains(c.Err.String(), test.says) {
				t.Errorf("it says %s, want %s", c.Err.String(), test.says)
			}
			last := f.LoggingIn[len(f.LoggingIn)-1].GetServer()
			switch {
			case test.want == nil && (code == 0 || last.GetAddress() != ""):
				t.Errorf("exit %d, to %v", code, last)
			case test.want != nil && (code != 0 || last.String() != test.want.String()):
				t.Errorf("exit %d, to %v, want %v: %s", code, last, test.want, c.Err.String())
			}
		})
	}
}

// Flags that make no sense together are refused before anything is asked of the daemon.
func TestLoginUsage(t *testing.T) {
	for _, args := range [][]string{
		{"login", "--no-browser"}, {"login", "a", "--issuer", "https://x.example"}, {"login", "a", "--client-id", "x"}, {"login", "a", "--client-secret"}, {"login", "a", "b"}, {"logout"},
	} {
		f := consoletest.Start(t)
		c := newConsole(f.Socket)
		if code := c.Run(t, args...); code != 2 || len(f.LoggingIn) > 0 {
			t.Errorf("%q: exit %d: %s", args, code, c.Err.String())
		}
	}
	f := consoletest.Start(t)
	f.Login = events("")
	c := newConsole(f.Socket)
	if code := c.Run(t, "login", "https://a.example/mcp", "--no-browser", "--client-id", "x", "--issuer", "https://accounts.example"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	if got := f.LoggingIn[0]; got.GetServer().GetAddress() != "https://a.example/mcp" || got.GetServer().GetId() != "" || got.GetClient().GetIssuer() != "https://accounts.example" || !got.GetNoBrowser() {
		t.Errorf("asked for %v", got)
	}
}

// Ids complete.
func TestCompletion(t *testing.T) {
	f := consoletest.Start(t)
	f.Logins = someLogins()
	for _, verb := range []string{"login", "logout"} {
		c := newConsole(f.Socket)
		if code := c.Run(t, "__complete", verb, ""); code != 0 {
			t.Fatal(code, c.Err.String())
		}
		words := strings.Split(c.Out.String(), "\n")
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "github") }) || !strings.Contains(c.Out.String(), "https://old.example") {
			t.Errorf("%s completes %q", verb, words)
		}
	}
}
