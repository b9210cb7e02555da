package phone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// typist types one line at each read.
type typist struct{ lines []string }

func (p *typist) Read(b []byte) (int, error) {
	if len(p.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.lines[0]+"\n")
	p.lines = p.lines[1:]
	return n, nil
}

// setup runs the setup at a terminal where lines are typed, and returns what it printed.
func setup(t *testing.T, o SetupOptions, lines ...string) (string, error) {
	t.Helper()
	var said rig.Buffer
	o.App = &ui.App{In: &typist{lines}, Out: &bytes.Buffer{}, Err: &said, InTerminal: true, ErrTerminal: true,
		Getenv: func(string) string { return "" }, Now: time.Now}
	err := Setup(t.Context(), o)
	return said.String(), err
}

// The setup makes topics, stores them for this user alone, shows where to subscribe, and ends once the button of the
// test message was pressed. Repeated, it asks, and makes other ones.
func TestSetup(t *testing.T) {
	f := newFakeNtfy(t)
	paths := sock.Paths{Config: filepath.Join(t.TempDir(), "c"), State: filepath.Join(t.TempDir(), "s")}
	var topics []string
	for _, lines := range [][]string{{f.URL + "/", ""}, {"y", f.URL, ""}} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			await(t, "the test message", func() bool { return pressWhatWorks(f, topics) })
		}()
		said, err := setup(t, SetupOptions{Paths: paths}, lines...)
		<-done
		if err != nil || !strings.Contains(said, "The phone is set up.") {
			t.Fatalf("%v\n%s", err, said)
		}
		s, err := loadSettings(settingsFile(paths))
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(settingsFile(paths)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the settings: %v, %v", info.Mode(), err)
		}
		if s.Server != f.URL || s.Values || len(strings.TrimPrefix(s.Topic, topicPrefix)) < 26 || len(strings.TrimPrefix(s.Answers, answersPrefix)) < 26 || slices.Contains(topics, s.Topic) {
			t.Errorf("settings %+v", s)
		}
		if !strings.Contains(said, "  "+s.Topic+"\n") || !strings.Contains(said, "█") || strings.Contains(said, s.Answers) {
			t.Errorf("said:\n%s", said)
		}
		topics = append(topics, s.Topic, s.Answers)
	}
	if _, err := setup(t, SetupOptions{Paths: paths}, "n"); ui.ExitCode(err) != ui.ExitFailed {
		t.Errorf("set up again without consent: %v", err)
	}
	if address, err := Reach(t.Context(), paths); address != f.URL || err != nil {
		t.Errorf("reached %q, %v", address, err)
	}
}

// pressWhatWorks presses the button of a test message in another topic than those of topics, and reports whether
// there was one.
func pressWhatWorks(f *fakeNtfy, topics []string) bool {
	f.mu.Lock()
	var found *action
	for _, m := range f.all {
		if a := m.button("It works"); a != nil && !slices.Contains(topics, m.Topic) {
			found = a
		}
	}
	f.mu.Unlock()
	if found != nil {
		f.press(found)
	}
	return found != nil
}

// Where the setup can't end well, it says what to do, and stores nothing.
func TestSetupWhereItCannot(t *testing.T) {
	gone := newFakeNtfy(t)
	gone.Close()
	closed, locked := newFakeNtfy(t), newFakeNtfy(t)
	closed.token, closed.locked = "tk_a", true
	locked.token = "tk_a"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("tk_wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wide := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(wide, []byte("tk_a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	page := newFakeNtfy(t)
	page.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	for _, test := range []struct {
		name, server, token, says string
	}{
		{"plain http elsewhere", "http://ntfy.example.com", "", "must begin with https://"},
		{"nobody is there", gone.URL, "", "connection refused"},
		{"no ntfy", page.URL, "", "not one of ntfy"},
		{"buttons need a token", closed.URL, "", "lets nobody write to a topic without a token"},
		{"a wrong token", locked.URL, token, "does not allow that with the token"},
		{"a token that others can read", locked.URL, wide, "has mode 0644"},
	} {
		t.Run(test.name, func(t *testing.T) {
			paths := sock.Paths{Config: t.TempDir(), State: t.TempDir()}
			said, err := setup(t, SetupOptions{Paths: paths, Server: test.server, TokenFile: test.token})
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error()+said, "tk_") || strings.Contains(err.Error(), "answers-") {
				t.Errorf("%v\n%s", err, said)
			}
			if _, err := loadSettings(settingsFile(paths)); !errors.Is(err, errNotSetUp) {
				t.Errorf("stored: %v", err)
			}
		})
	}
}

func TestServerAddress(t *testing.T) {
	for given, want := range map[string]string{
		"https://ntfy.sh":            "https://ntfy.sh",
		"https://ntfy.example:8443/": "https://ntfy.example:8443",
		"http://127.0.0.1:2586":      "http://127.0.0.1:2586",
		"http://localhost":           "http://localhost",
		"http://192.168.1.5":         "http://192.168.1.5",
		"http://[fd00::1]:80":        "http://[fd00::1]:80",
		"http://[::1]":               "http://[::1]",
		"http://ntfy.example":        "",
		"http://8.8.8.8":             "",
		"http://127.0.0.1.nip.io":    "",
		"http://0x7f000001":          "",
		"ftp://127.0.0.1":            "",
		"https://a@ntfy.example":     "",
		"https://ntfy.example/x":     "",
		"https://ntfy.example?x":     "",
		"https://ntfy.example/?":     "",
		"https://ntfy.example/#x":    "",
		"ntfy.example":               "",
		"https:ntfy.example":         "",
		"https://":                   "",
		"":                           "",
	} {
		if got, err := serverAddress(given); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}

func TestLink(t *testing.T) {
	for server, want := range map[string]string{"https://ntfy.sh": "ntfy://ntfy.sh/t", "http://10.0.0.1:80": "ntfy://10.0.0.1:80/t?secure=false"} {
		if got := (&settings{Server: server, Topic: "t"}).link(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Settings that others can read, or that were altered, are not used.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "phone.json")
	good, err := newSettings("https://ntfy.sh", "", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*settings){
		"version":       func(s *settings) { s.V = 2 },
		"plain server":  func(s *settings) { s.Server = "http://ntfy.sh" },
		"short topic":   func(s *settings) { s.Topic = "alerts" },
		"a path":        func(s *settings) { s.Answers = "../../../../../../v1/x" },
		"one topic":     func(s *settings) { s.Answers = s.Topic },
		"short key":     func(s *settings) { s.Key = s.Key[:8] },
		"token in rows": func(s *settings) { s.Token = "a\r\nX-Y: z" },
	} {
		bad := *good
		change(&bad)
		if err := bad.save(path); err != nil {
			t.Fatal(err)
		}
		if _, err := loadSettings(path); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
	if err := errors.Join(good.save(path), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSettings(path); err == nil {
		t.Error("loaded what others can read")
	}
}

// The same with the real ntfy, if NTFY names its program or it is in PATH: questions are sent, updated and answered,
// also by what was published while this program was away.
func TestRealServer(t *testing.T) {
	program := os.Getenv("NTFY")
	if program == "" {
		program = "ntfy"
	}
	program, err := exec.LookPath(program)
	if err != nil {
		t.Skip("ntfy is not here; NTFY can name its program")
	}
	f := newFixture(t, true)
	address := startNtfy(t, program)
	f.setUp(address, true)
	f.s.Token = ""
	if err := f.s.save(settingsFile(f.o.Paths)); err != nil {
		t.Fatal(err)
	}
	server := newServer(f.s)
	if at, err := tryTopics(t.Context(), nil, f.s); err != nil || at == "" {
		t.Fatalf("try the topics: %q, %v", at, err)
	}
	f.daemon.Ask("ops", "A-7", "A-8")
	stop := f.start()
	seven := readReal(t, server, f.s.Topic, "A-7: write_file on files", "")
	eight := readReal(t, server, f.s.Topic, "A-8: write_file on files", "")
	f.decidesAfter(seven, "Approve", "ANSWER_APPROVE A-7 the subject of A-7 phone")
	readReal(t, server, f.s.Topic, "A-7", "A-7 approved by phone (claim)")
	stop()
	publishAnswer(t, eight.button("Deny"))
	f.start()
	f.decides("ANSWER_APPROVE A-7 the subject of A-7 phone", "ANSWER_DENY A-8 the subject of A-8 phone")
}

// decidesAfter presses a button and waits for the answer.
func (f *fixture) decidesAfter(m *published, button, want string) {
	f.Helper()
	publishAnswer(f.T, m.button(button))
	f.decides(want)
}

// startNtfy runs a real server until the test ends and returns its address.
func startNtfy(t *testing.T, program string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "serve", "--listen-http", at, "--cache-file", filepath.Join(t.TempDir(), "cache.db"), "--base-url", "http://"+at)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var said rig.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Log(said.String())
		}
	})
	server := newServer(&settings{Server: "http://" + at})
	await(t, "the server", func() bool { return server.healthy(t.Context()) == nil })
	return "http://" + at
}

// readReal waits for a message of a real server.
func readReal(t *testing.T, s *server, topic, title, text string) *published {
	t.Helper()
	var found *published
	await(t, "a message "+title, func() bool {
		found = nil
		resp, err := s.do(t.Context(), http.MethodGet, "/"+topic+"/json?poll=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(all) {
			m := &published{}
			if json.Unmarshal(line, &m.message) == nil && strings.HasPrefix(m.Title, title) && strings.Contains(m.Message, text) {
				found = m
			}
		}
		return found != nil
	})
	return found
}
