package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/session/trust"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// remoteStage is a daemon, and an agent whose tg-shim stands for a server behind an address.
type remoteStage struct {
	*Daemon
	t     *testing.T
	dir   string
	agent proc.Process
	wrap  proc.Process
}

// newRemoteStage returns a stage whose agent has the given variables, and nothing else, in its environment.
func newRemoteStage(t *testing.T, config string, environ ...string) *remoteStage {
	t.Helper()
	dir := t.TempDir()
	paths := sock.Paths{Config: dir + "/config", State: dir + "/state", Runtime: dir + "/run"}
	err := paths.Prepare()
	if err == nil {
		err = os.MkdirAll(paths.Config, 0o700)
	}
	if err == nil {
		err = os.WriteFile(paths.ConfigFile(), []byte("schema: 1\n"+config), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Paths: paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler), Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	agent := exec.Command("/bin/sh", "-c", "read line")
	agent.Env = append([]string{"PATH=/usr/bin:/bin"}, environ...)
	in, err := agent.StdinPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = agent.Wait()
	})
	s := &remoteStage{Daemon: d, t: t, dir: dir}
	s.agent, s.wrap = processOf(t, agent.Process.Pid), processOf(t, os.Getpid())
	return s
}

func processOf(t *testing.T, pid int) proc.Process {
	t.Helper()
	p, err := proc.Read(int32(pid))
	if err != nil {
		t.Fatal(err)
	}
	return p.Process
}

// open opens a session with a server.
func (s *remoteStage) open(n int, wrap proc.Process, r agentconf.Remote) string {
	s.t.Helper()
	id := fmt.Sprintf("%032x", n)
	r.Server = "cloud"
	opened, err := s.sessions.Open(s.t.Context(), wrap, session.Spec{ID: id, Agent: "custom", Project: s.dir, Remotes: []agentconf.Remote{r}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.sessions.Leave(opened) })
	return id
}

// attach returns how the daemon would connect for a tg-shim that names session.
func (s *remoteStage) attach(named string) (*remote.Server, error) {
	h := &session.Hello{Shim: gate.Shim{Session: named, Server: "cloud", Remote: true}, Peer: s.agent, Parent: s.agent, Line: []proc.Process{s.agent, s.wrap}}
	l := &handover.Launch{Server: "cloud", Cwd: s.dir}
	command, err := s.remoteCommand(s.t.Context(), h, l)
	if err != nil {
		return nil, err
	}
	saved := &session.Saved{Shim: h.Shim, Parent: s.agent}
	saved.Shim.Session, saved.Shim.Launch = fmt.Sprintf("%032x", 1), gate.Launch(command)
	return s.remoteServer(s.t.Context(), saved, l)
}

// Address and headers are expanded with the environment of the agent's own process, and with nobody
// else's.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteIsExpanded(t *testing.T) {
	t.Setenv("KEY", "the daemon's")
	t.Setenv("PLACE", "daemon.test")
	s := newRemoteStage(t, "", "KEY=k3y", "HTTPS_PROXY=http://proxy.test:1")
	id := s.open(1, s.wrap, agentconf.Remote{Address: "https://mcp.test/a?k=${KEY}", Syntax: "shell", Headers: []agentconf.Header{
		{Name: "x-key", Variable: "KEY"}, {Name: "Accept", Template: "text/plain"}, {Name: "Authorization", Template: "Bearer ${NONE:-t0ken}"},
	}})
	got, err := s.attach(id)
	if err != nil {
		t.Fatal(err)
	}
	if got.Address != "https://mcp.test/a?k=k3y" || got.Headers.Get("X-Key") != "k3y" || got.Headers.Get("Authorization") != "Bearer t0ken" || got.Headers.Get("Accept") != "" || got.Policy != remote.Named {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(strings.Join(got.Environ, "\n"), "HTTPS_PROXY=http://proxy.test:1") {
		t.Errorf("the proxies are those of %q", got.Environ)
	}
}

//gotest:plain it is about what is decided, and not about when
func TestRemoteIsRefused(t *testing.T) {
	s := newRemoteStage(t, "")
	t.Setenv("PLACE", "daemon.test")
	s.open(1, s.wrap, agentconf.Remote{Address: "https://${PLACE}/a", Syntax: "shell"})
	if _, err := s.attach("x"); err == nil || !strings.Contains(err.Error(), "PLACE, which is not set in the environment of the agent") {
		t.Errorf("a variable that the agent does not have: %v", err)
	}
	h := &session.Hello{Shim: gate.Shim{Session: fmt.Sprintf("%032x", 1), Server: "cloud"}, Parent: s.agent, Line: []proc.Process{s.agent}}
	if _, err := s.remoteCommand(t.Context(), h, &handover.Launch{Server: "cloud"}); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("a tg-shim that does not descend from the wrap: %v", err)
	}
}

// A tg-shim below one wrap gets no server of another, with its headers, by naming it.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteOfAnotherSession(t *testing.T) {
	s := newRemoteStage(t, "")
	s.open(1, s.wrap, agentconf.Remote{Address: "https://mine.test/"})
	other := s.open(2, s.agent, agentconf.Remote{Address: "https://other.test/"})
	s.agent = processOf(t, os.Getppid()) // no wrap
	if got, err := s.attach(other); err != nil || got.Address != "https://mine.test/" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a project's file says needs a person first, and then reaches only public addresses.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteOfAProject(t *testing.T) {
	s := newRemoteStage(t, "")
	s.open(1, s.wrap, agentconf.Remote{Address: "http://127.0.0.1:1/", From: filepath.Join(s.dir, ".mcp.json")})
	if _, err := s.attach(""); !errors.Is(err, gate.ErrWithheld) {
		t.Fatalf("not accepted: %v", err)
	}
	for _, k := range s.trust.List() {
		if _, err := s.trust.Accept(t.Context(), trust.Name{Project: k.Project, Server: k.Server, Digest: k.Digest[:]}, trust.By{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.attach(""); err != nil || got.Policy != remote.PublicOnly {
		t.Errorf("%+v, %v", got, err)
	}
}

// Another address is another server: what was pinned and recorded is not its.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteWithAnotherAddress(t *testing.T) {
	s := newRemoteStage(t, "")
	id := s.open(1, s.wrap, agentconf.Remote{Address: "https://mcp.test/b?other=query"})
	l := &handover.Launch{Server: "cloud", Cwd: s.dir}
	saved := &session.Saved{Shim: gate.Shim{Session: id, Server: "cloud", Launch: gate.Launch([]string{"https://mcp.test/b"})}, Parent: s.agent}
	if _, err := s.remoteServer(t.Context(), saved, l); err != nil {
		t.Error(err)
	}
	saved.Shim.Launch = gate.Launch([]string{"https://mcp.test/a"})
	if _, err := s.remoteServer(t.Context(), saved, l); err == nil || !strings.Contains(err.Error(), "another address") {
		t.Errorf("%v", err)
	}
}

// Certificates are those that thoughtgate.yaml names, beside it.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteCertificates(t *testing.T) {
	s := newRemoteStage(t, "sources:\n  - {id: cloud, ca_file: ca.pem, cert_file: /c.pem, key_file: k.pem}\n")
	id := s.open(1, s.wrap, agentconf.Remote{Address: "https://mcp.test/"})
	got, err := s.attach(id)
	if err != nil || got.CAFile != s.dir+"/config/ca.pem" || got.CertFile != "/c.pem" || got.KeyFile != s.dir+"/config/k.pem" {
		t.Errorf("%+v, %v", got, err)
	}
}

// The command that prints headers runs in the agent's folder and environment. What it can't do is said
// without its output, which may be secret.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteHelper(t *testing.T) {
	s := newRemoteStage(t, "", "KEY=k3y", "THOUGHTGATE_SESSION=s")
	r := agentconf.Remote{Address: "https://mcp.test/", Headers: []agentconf.Header{{Name: "A", Template: "old"}}}
	if err := os.WriteFile(filepath.Join(s.dir, "headers"), []byte(`{"a":"new"`), 0o600); err != nil {
		t.Fatal(err)
	}
	id := s.open(1, s.wrap, r)
	for _, test := range []struct{ script, want string }{
		{`cat headers; printf ',"X":"%s%s"}' "$KEY" "$THOUGHTGATE_SESSION"`, ""},
		{`echo '{"X":"s3cr3t"}'; exit 3`, "it has ended with exit status 3"},
		{`echo s3cr3t`, "it prints no JSON object"},
		{`echo '{"X":"s3cr3t","X":"s3cr3t"}'`, "it prints no JSON object"},
		{`echo '{"X":7}'`, "not all texts"},
		{`head -c 70000 /dev/zero`, "it prints more than 65536 bytes"},
		{`echo '{"Host":"evil.test"}'`, ""}, // Open refuses it
	} {
		r.Server, r.Helper = "cloud", []string{"sh", "-c", test.script}
		if err := s.sessions.Amend(t.Context(), s.wrap, id, nil, []agentconf.Remote{r}, nil); err != nil {
			t.Fatal(err)
		}
		got, err := s.attach(id)
		switch {
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cr3t")):
			t.Errorf("%s: %v, want %q", test.script, err, test.want)
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.script, err)
		case strings.HasPrefix(test.script, "cat") && (got.Headers.Get("A") != "new" || got.Headers.Get("X") != "k3y"):
			t.Errorf("the headers are %q", got.Headers)
		}
	}
}

// A request is sent again only if the person trusts the server's annotations, and these say that it may be.
//
//gotest:plain it is about what is decided, and not about when
func TestRemoteIdempotent(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		s := newRemoteStage(t, fmt.Sprintf("pins: {mode: off}\nsources:\n  - {id: cloud, trust_annotations: %v}\n", trusted))
		shim := gate.Shim{Attachment: "0123456789abcdef", Session: "s", Server: "cloud", Launch: "l", Remote: true, Patience: time.Hour}
		a := s.judge.Attach(t.Context(), shim, nil)
		defer a.Close(true)
		seen := make(chan gate.Verdict, 1)
		a.Bind(func(v gate.Verdict) { seen <- v })
		a.Submit(gate.Submission{Seq: 2, Side: wire.FromServer, Answers: "tools/list", Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` +
			`{"name":"get","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
			`{"name":"pay","inputSchema":{"type":"object"},"annotations":{"idempotentHint":false}},{"name":"new","inputSchema":{"type":"object"}}]}}`)})
		<-seen
		again := s.idempotent(&session.Saved{Shim: shim})
		for name, want := range map[string]bool{"get": true, "look": true, "pay": false, "new": false, "none": false} {
			line := []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + name + `"}}`)
			var e wire.Envelope
			if err := wire.Read(line, wire.FromAgent, &e); err != nil {
				t.Fatal(err)
			}
			if got := again(line, &e); got != (want && trusted) {
				t.Errorf("%s, trusted %v: %v", name, trusted, got)
			}
		}
	}
}
