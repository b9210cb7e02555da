package slack

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/secret"
)

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "xoxb-secret-1\n", 0o600)
	credentials := filepath.Join(dir, "credentials")
	if err := os.Mkdir(credentials, 0o700); err != nil {
		t.Fatal(err)
	}
	file("credentials/BOT", "xoxb-secret-2", 0o400)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name        string
		env         map[string]string
		token, fail string
	}{
		{"variable", map[string]string{"BOT": "xoxb-secret-0"}, "xoxb-secret-0", ""},
		{"file", map[string]string{"BOT_FILE": good}, "xoxb-secret-1", ""},
		{"credential", map[string]string{"CREDENTIALS_DIRECTORY": credentials}, "xoxb-secret-2", ""},
		{"credentials of others", map[string]string{"CREDENTIALS_DIRECTORY": dir, "BOT": "xoxb-secret-0"}, "xoxb-secret-0", ""},
		{"nowhere", nil, "", "is missing"},
		{"twice", map[string]string{"BOT": "xoxb-secret-0", "BOT_FILE": good}, "", "given twice"},
		{"credential and file", map[string]string{"CREDENTIALS_DIRECTORY": credentials, "BOT_FILE": good}, "", "given twice"},
		{"others can read it", map[string]string{"BOT_FILE": file("open", "xoxb-secret-3", 0o640)}, "", "mode 0640"},
		{"others can write it", map[string]string{"BOT_FILE": file("writable", "xoxb-secret-3", 0o602)}, "", "mode 0602"},
		{"a folder", map[string]string{"BOT_FILE": dir}, "", "not a regular file"},
		{"a pipe", map[string]string{"BOT_FILE": pipe}, "", "not a regular file"},
		{"nothing", map[string]string{"BOT_FILE": filepath.Join(dir, "none")}, "", "no such file"},
		{"large", map[string]string{"BOT_FILE": file("large", "xoxb-secret"+strings.Repeat("x", secret.MaxFileBytes), 0o600)}, "", "too many for what"},
		{"another kind", map[string]string{"BOT": "xoxp-secret"}, "", "must begin with xoxb-"},
		{"empty file", map[string]string{"BOT_FILE": file("empty", "\n", 0o600)}, "", "must begin with xoxb-"},
		{"two lines", map[string]string{"BOT": "xoxb-secret\nxoxb-secret"}, "", "must begin with xoxb-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			token, from, err := readToken(func(name string) string { return test.env[name] }, "BOT", "xoxb-", "the bot token")
			switch {
			case test.fail == "" && (err != nil || token != test.token || from == ""):
				t.Errorf("got %q from %q, %v", token, from, err)
			case test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail)):
				t.Errorf("got %q, %v; want %q", token, err, test.fail)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error holds the token: %v", err)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	for _, test := range []struct{ given, want string }{
		{"", slackAPI},
		{"https://proxy.example/slack", "https://proxy.example/slack/"},
		{"http://127.0.0.1:9/api/", "http://127.0.0.1:9/api/"},
		{"http://localhost:9", "http://localhost:9/"},
		{"http://[::1]:9/", "http://[::1]:9/"},
		{"http://proxy.example/", ""},
		{"http://127.0.0.1.example/", ""},
		{"http://localhost.example/", ""},
		{"ws://127.0.0.1/", ""},
		{"https://u:p@proxy.example/", ""},
		{"https://proxy.example/?x=1", ""},
		{"proxy.example", ""},
	} {
		got, err := address(func(string) string { return test.given })
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("address(%q) = %q, %v; want %q", test.given, got, err, test.want)
		}
	}
}

// A token is sent neither unencrypted to another machine nor to the target of a redirect.
func TestRequestsAreGuarded(t *testing.T) {
	client := newHTTP()
	resp, err := client.PostForm("http://192.0.2.1:1/api/auth.test", url.Values{"token": {"xoxb-secret"}})
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "does not use TLS") {
		t.Errorf("got %v", err)
	}
	if err := client.CheckRedirect(nil, nil); !errors.Is(err, http.ErrUseLastResponse) {
		t.Errorf("a redirection is followed: %v", err)
	}
}

// Connections that end at once are reopened with growing delays. A connection that lasted is
// reopened at once.
func TestPacer(t *testing.T) {
	p := &pacer{}
	now := time.Now()
	var waits []time.Duration
	for range 8 {
		d := p.wait(now)
		waits = append(waits, d)
		now = now.Add(d)
	}
	if waits[0] != 0 || waits[1] != pauseFirst || waits[2] != 2*pauseFirst || waits[7] != pauseLonger {
		t.Errorf("waits %v", waits)
	}
	if d := p.wait(now.Add(steady + time.Second)); d != 0 {
		t.Errorf("after one that held it waits %v", d)
	}
}

// A memory file that cannot be read is an error. It is not replaced, since then everything
// would be posted again.
func TestMemoryThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "{", `{"v":2,"messages":[]}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "app.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := remember(dir, "app")
		var p *Problem
		if m != nil || !errors.As(err, &p) {
			t.Errorf("%q: got %v, %v", text, m, err)
		}
		m, err = remember(dir, "../another") // the lock was released, and no path leaves the directory
		if err != nil || filepath.Dir(m.path) != dir {
			t.Errorf("got %+v, %v", m, err)
		}
		m.close()
	}
}
