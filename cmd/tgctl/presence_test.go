package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// playOutsider is a program that no agent started, like one that systemd-run --user or cron
// starts. It connects to the daemon and tries in every way to approve the question that its
// argument names. It prints the errors, and exits 0 if all attempts were refused for lack of a
// proof.
func playOutsider() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.WithEnv(os.Getenv))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	q, err := c.GetApproval(ctx, os.Args[1])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	lasting := &pb.GrantTerms{For: durationpb.New(time.Hour), Match: pb.GrantMatch_GRANT_MATCH_TOOL, Scope: pb.GrantScope_GRANT_SCOPE_ALWAYS}
	passed := 0
	for what, test := range map[string]struct {
		d    *pb.Decision
		want error
	}{
		"nothing":            {&pb.Decision{Surface: "terminal"}, client.ErrProofNeeded},
		"another surface":    {&pb.Decision{Surface: "script"}, client.ErrProofNeeded},
		"an empty proof":     {&pb.Decision{Surface: "terminal", Proof: &pb.Proof{}}, client.ErrProofNeeded},
		"a lasting yes":      {&pb.Decision{Surface: "terminal", Grant: lasting}, client.ErrProofNeeded},
		"other arguments":    {&pb.Decision{Surface: "terminal", Edit: []byte(`{"name":"x"}`)}, client.ErrProofNeeded},
		"a code without any": {&pb.Decision{Surface: "terminal", Proof: &pb.Proof{Code: []byte("123456")}}, client.ErrProofNeeded},
		"a guess":            {&pb.Decision{Surface: "terminal", Proof: &pb.Proof{Passphrase: []byte("password")}}, client.ErrProofWrong},
		"both":               {&pb.Decision{Surface: "terminal", Proof: &pb.Proof{Passphrase: []byte("password"), Code: []byte("123456")}}, client.ErrProofNeeded},
	} {
		test.d.Id, test.d.Subject, test.d.Answer = q.GetId(), q.GetSubject(), pb.Answer_ANSWER_APPROVE
		_, err := c.Decide(ctx, test.d)
		fmt.Printf("%s: %v\n", what, err)
		if !errors.Is(err, test.want) {
			passed++
		}
	}
	// It cannot change the secret either: it has no terminal.
	for what, err := range map[string]error{
		"recover": c.RemovePresence(ctx, &pb.RemovePresenceRequest{Recover: true}),
		"remove":  c.RemovePresence(ctx, &pb.RemovePresenceRequest{Passphrase: []byte("correct horse")}),
	} {
		fmt.Printf("%s: %v\n", what, err)
		if !errors.Is(err, client.ErrForbidden) {
			passed++
		}
	}
	return passed
}

// screen is a program at a terminal, as a person sees it.
type screen struct {
	t      *testing.T
	tty    *os.File // the person's end
	before *term.State
	cmd    *exec.Cmd

	mu   sync.Mutex
	text bytes.Buffer
	done sync.WaitGroup
}

// presenceHome starts an instance with its programs, and returns the environment to reach it.
func presenceHome(t *testing.T, config string) (bin string, env []string) {
	t.Helper()
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	dir := consoletest.ShortDir(t)
	env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir)
	for name, sub := range map[string]string{"XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"} {
		path := filepath.Join(dir, sub)
		if err := os.MkdirAll(filepath.Join(path, "thoughtgate"), 0o700); err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+path)
	}
	if err := os.WriteFile(filepath.Join(dir, "config/thoughtgate/thoughtgate.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		cmd := exec.Command(filepath.Join(bin, "tgctl"), args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("tgctl %v: %v\n%s", args, err, out)
		}
	}
	run("daemon", "start")
	t.Cleanup(func() {
		run("daemon", "stop")
		nothingLeft(t, dir)
	})
	return bin, env
}

// atScreen runs tgctl at a terminal of its own.
func atScreen(t *testing.T, bin string, env []string, args ...string) *screen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &screen{t: t, cmd: exec.CommandContext(ctx, filepath.Join(bin, "tgctl"), args...)}
	s.cmd.Env = env
	tty, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	s.tty = tty
	if s.before, err = term.GetState(int(tty.Fd())); err != nil { // before the program can change it
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 50, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirs, theirs, theirs
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.done.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return s
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// until waits until the screen matches pattern, and returns what its group matched.
func (s *screen) until(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if found := re.FindStringSubmatch(s.shown()); found != nil {
			return found[len(found)-1]
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%q is not shown:\n%s", pattern, s.shown())
		}
	}
}

func (s *screen) types(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the program and returns its exit code.
func (s *screen) ends() int {
	s.t.Helper()
	_ = s.cmd.Wait() // the exit code says more
	state, err := term.GetState(int(s.tty.Fd()))
	if err != nil || state == nil {
		s.t.Error(err)
	}
	s.tty.Close()
	s.done.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// codeOf returns the RFC 6238 code that is valid some steps from now.
func codeOf(t *testing.T, key string, steps int64) string {
	t.Helper()
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha1.New, secret)
	if err := binary.Write(h, binary.BigEndian, time.Now().Unix()/30+steps); err != nil {
		t.Fatal(err)
	}
	sum := h.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1_000_000)
}

const presenceConfig = `schema: 1
governance: {rules: [{match: "*", action: approve}]}
approval: {me: {destination: {type: local}, timeout: 5m, require: presence}}
`

// TestCodesAtATerminal enrols an authenticator app. It checks that each code answers a question
// only once, and that nothing typed is shown.
func TestCodesAtATerminal(t *testing.T) {
	bin, env := presenceHome(t, presenceConfig)
	s := atScreen(t, bin, env, "presence", "enrol", "--totp")
	s.until(`Passphrase \(not shown\):`)
	s.types("correct horsf\x7fe\r")
	s.until(`Repeat it \(not shown\):`)
	s.types("xyz\x15correct horse\r")
	key := s.until(`key: ([A-Z2-7]{32})\r\n`)
	s.until(`Code from the app \(not shown\):`)
	code := codeOf(t, key, 0)
	s.types(code + "\r")
	if code := s.ends(); code != 0 {
		t.Fatalf("exit %d:\n%s", code, s.shown())
	}
	if shown := s.shown(); strings.Contains(shown, "horse") || strings.Contains(shown, code) {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	dir := consoletest.ShortDir(t)
	config := filepath.Join(dir, "mcp.json")
	for path, text := range map[string]string{
		config: `{"mcpServers": {"notes": {"command": "fake-server"}}}`, filepath.Join(dir, "script.txt"): "call notes list_notes\ncall notes list_notes\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrap := exec.Command(filepath.Join(bin, "tgctl"), "wrap", "--agent-type", "custom", "--config-path", config, "--", "fake-agent", config, filepath.Join(dir, "script.txt"))
	wrap.Env = env
	var out bytes.Buffer
	wrap.Stdout, wrap.Stderr = &out, &out
	if err := wrap.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor := func(id string) {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			list := exec.Command(filepath.Join(bin, "tgctl"), "approvals")
			list.Env = env
			if text, err := list.Output(); err == nil && bytes.Contains(text, []byte(id)) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is never asked:\n%s", id, out.String())
			}
		}
	}
	approve := func(id, typed string) (int, string) {
		s := atScreen(t, bin, env, "approvals", "approve", id)
		s.until(`Passphrase or code \(not shown\):`)
		s.types(typed + "\r")
		return s.ends(), s.shown()
	}
	waitFor("A-1")
	if exit, shown := approve("A-1", code); exit != 1 || !strings.Contains(shown, "wrong passphrase or code") {
		t.Errorf("a code that was used: exit %d\n%s", exit, shown)
	}
	code = codeOf(t, key, 1)
	if exit, shown := approve("A-1", code); exit != 0 || !strings.Contains(shown, "approved A-1") {
		t.Errorf("a code: exit %d\n%s", exit, shown)
	}
	waitFor("A-2")
	if exit, shown := approve("A-2", code); exit != 1 {
		t.Errorf("the same code: exit %d\n%s", exit, shown)
	}
	if exit, shown := approve("A-2", "correct horse"); exit != 0 {
		t.Errorf("the passphrase: exit %d\n%s", exit, shown)
	}
	if err := wrap.Wait(); err != nil || strings.Count(out.String(), "list_notes: error false") != 2 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// However a prompt ends, it restores the terminal.
func TestPromptsGiveTheTerminalBack(t *testing.T) {
	bin, env := presenceHome(t, presenceConfig)
	for name, test := range map[string]struct {
		end  func(*screen)
		code int
	}{
		"ctrl-c":  {func(s *screen) { s.types("\x03") }, 130},
		"ctrl-d":  {func(s *screen) { s.types("\x04") }, 130},
		"sigterm": {func(s *screen) { _ = s.cmd.Process.Signal(syscall.SIGTERM) }, 130},
		"sigint":  {func(s *screen) { _ = s.cmd.Process.Signal(syscall.SIGINT) }, 130},
		"enter":   {func(s *screen) { s.types("\rsomething else\r") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := atScreen(t, bin, env, "presence", "enrol")
			s.until(`Passphrase \(not shown\):`)
			s.types("half of it")
			test.end(s)
			_ = s.cmd.Wait()
			after, err := term.GetState(int(s.tty.Fd()))
			if err != nil || *after != *s.before {
				t.Errorf("the terminal is %+v, %v; it was %+v", after, err, s.before)
			}
			if code := s.ends(); code != test.code {
				t.Errorf("exit %d, want %d:\n%s", code, test.code, s.shown())
			}
		})
	}
}
