package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/login"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/oauth"
)

func loginDaemon(t *testing.T) *Daemon {
	t.Helper()
	dir := t.TempDir()
	paths := sock.Paths{Config: dir + "/config", State: dir + "/state", Runtime: dir + "/run"}
	if err := paths.Prepare(); err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Paths: paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler), Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

// session opens a session with a server, as joinRemote does.
func (l *logins) session(t *testing.T, s remote.Server, attachment string) remote.Authorizer {
	t.Helper()
	a, err := l.attach(s, gate.Shim{Attachment: attachment, Agent: "claude-code", Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A person names a server by its id or its address, and never by one that means two.
func TestFindServer(t *testing.T) {
	l := loginDaemon(t).logins
	for i, s := range []remote.Server{
		{ID: "github", Address: "https://a.example/mcp", Policy: remote.PublicOnly}, {ID: "github", Address: "https://a.example/mcp?key=x", Policy: remote.Named},
		{ID: "mail", Address: "https://m1.example"}, {ID: "mail", Address: "https://m2.example"},
	} {
		defer l.session(t, s, string(rune('a'+i))).Close()
	}
	for what, test := range map[string]struct {
		to      api.LoginServer
		address string // empty for an error
		err     error
		says    string
	}{
		"by id":                 {api.LoginServer{ID: "github"}, "https://a.example/mcp?key=x", nil, ""},
		"by address":            {api.LoginServer{Address: "https://m2.example/"}, "https://m2.example", nil, ""},
		"by both":               {api.LoginServer{ID: "mail", Address: "https://m1.example"}, "https://m1.example", nil, ""},
		"by an ambiguous id":    {api.LoginServer{ID: "mail"}, "", gate.ErrInvalid, "https://m1.example, https://m2.example"},
		"by an unknown id":      {api.LoginServer{ID: "db"}, "", gate.ErrNotFound, "github, mail"},
		"by an unknown address": {api.LoginServer{Address: "https://new.example"}, "https://new.example", nil, ""},
		"by id and a new place": {api.LoginServer{ID: "github", Address: "https://b.example"}, "https://b.example", nil, ""},
	} {
		got, err := l.find(test.to)
		if got.Address != test.address || !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %s, %v", what, got.Address, err)
		}
	}
}

// The address of a project's file must be public, in a session and if a person names it. A server of the person's
// own file may be on this machine.
func TestLoginOfProject(t *testing.T) {
	l := loginDaemon(t).logins
	asked := false
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer h.Close()
	how := login.How{By: login.By{Who: "ana"}}
	if _, err := l.Login(t.Context(), api.LoginServer{ID: "x", Address: h.URL, Project: true}, how); !errors.Is(err, remote.ErrAddress) || asked {
		t.Errorf("a project's address on this machine: %v; asked %v", err, asked)
	}
	a := l.session(t, remote.Server{ID: "y", Address: h.URL, Policy: remote.PublicOnly}, "a")
	if _, err := l.Login(t.Context(), api.LoginServer{ID: "y"}, how); !errors.Is(err, remote.ErrAddress) || asked {
		t.Errorf("a project's session: %v; asked %v", err, asked)
	}
	a.Close()
	if _, err := l.Login(t.Context(), api.LoginServer{ID: "x", Address: h.URL}, how); errors.Is(err, remote.ErrAddress) || !asked {
		t.Errorf("the person's own address: %v; asked %v", err, asked)
	}
}

// A server to which the configuration sends credentials, or that is on a socket, has no login.
func TestNoLogin(t *testing.T) {
	l := loginDaemon(t).logins
	for what, s := range map[string]remote.Server{
		"a header":   {ID: "s", Address: "https://a.example", Headers: http.Header{"Authorization": {"Bearer x"}}},
		"a password": {ID: "s", Address: "https://ana:secret@a.example"},
		"a socket":   {ID: "s", Address: "unix:///run/s.sock"},
		"plain http": {ID: "s", Address: "http://10.1.2.3/mcp"},
	} {
		if a := l.session(t, s, "a"); a != nil {
			t.Errorf("%s: there is a login", what)
		}
	}
}

// A stored login without a session is listed, and removed by its address. The start of the daemon and of its
// sessions touches no file of the vault.
func TestStoredLogin(t *testing.T) {
	d := loginDaemon(t)
	l := d.logins
	server := &oauth.Server{Life: time.Hour, Device: true}
	h := httptest.NewServer(server)
	defer h.Close()
	server.Origin = h.URL
	files := func() []string {
		all, err := filepath.Glob(filepath.Join(d.options.Paths.State, "logins*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	l.session(t, remote.Server{ID: "cloud", Address: h.URL + "/mcp"}, "a").Close()
	if all := files(); len(all) > 0 {
		t.Errorf("before the first login there are %q", all)
	}
	how := login.How{By: login.By{Who: "ana", Surface: "terminal"}, Show: func(_ context.Context, p login.Prompt) error {
		answer, err := http.Get(p.Address)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}}
	address := h.URL + "/mcp"
	if _, err := l.Login(t.Context(), api.LoginServer{ID: "cloud", Address: address}, how); err != nil {
		t.Fatal(err)
	}
	for _, path := range files() {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	all, place := l.List()
	if len(all) != 1 || all[0].Resource != address || all[0].Phase != login.Ready || place.Stored != 1 || place.InKeyring {
		t.Errorf("listed %+v, %+v", all, place)
	}
	if err := l.Logout(t.Context(), api.LoginServer{Address: address}, how.By); err != nil || server.Count("revoke") != 1 {
		t.Errorf("logout: %v; revoked %d times", err, server.Count("revoke"))
	}
	if err := l.Logout(t.Context(), api.LoginServer{Address: address}, how.By); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("the second logout: %v", err)
	}
	if all, place := l.List(); len(all) != 0 || place.Stored != 0 {
		t.Errorf("after the logout: %+v, %+v", all, place)
	}
}

// The end of a login by its issuer is on record.
func TestEndedLogin(t *testing.T) {
	d := loginDaemon(t)
	d.logins.ended(t.Context(), login.Server{ID: "cloud"}, "https://issuer.example")
	var got []string
	err := d.audit.Read(t.Context(), audit.Query{Kind: record.KindLogin}, func(_ uint64, line, _ []byte) error {
		got = append(got, string(line))
		return nil
	})
	if err != nil || len(got) != 1 || !strings.Contains(got[0], `"server":"cloud"`) || !strings.Contains(got[0], `"verdict":"ended"`) || !strings.Contains(got[0], `"reason":"issuer https://issuer.example"`) {
		t.Errorf("on record: %q, %v", got, err)
	}
}
