package rig

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options are how a shim is started. The zero value wraps the test's server.
type Options struct {
	Server  string   // server id; "x" where empty
	Profile string   // of --profile; none where empty
	Flags   []string // more flags of the shim
	Env     []string // added to the house's
	Command []string // what is wrapped instead of the test's server
	Instead []string // what is started instead of the shim, before the server's command line
	Shipped bool     // the shim as it ships, without the race detector

	// Agent puts a process between the test and the shim, which starts the shim
	// and can be killed. Process is that one then.
	Agent bool

	// Before is a program with its first arguments that is started with the shim's
	// command line behind them, and starts that; see Launcher. Process is that
	// program then.
	Before []string

	// Each is told of each line that the agent receives, with its line feed, instead
	// of Agent keeping them all: for runs that are too long for that. The line is
	// the callee's until it returns.
	Each func(line []byte)

	// Sockets makes the shim's standard input and output sockets, as Node.js does.
	Sockets bool

	// Terminal makes the shim's standard error a terminal.
	Terminal bool

	// Stays makes the test's server go on when its standard input ends.
	Stays bool
}

// Shim is a shim with a test at both ends.
type Shim struct {
	*Process
	tb     testing.TB
	listen *listener

	// Agent is what the agent has received.
	Agent *Inbox

	// Server is the wrapped server, once Join has returned.
	Server *Server

	passed string // where the agent's process counts, if there is one
	stdin  io.WriteCloser
	stderr Buffer
	read   chan struct{} // closed when all of stderr was read; nil where it is no terminal
}

// Shim starts a shim, which is ended when tb ends. Nothing is waited for; see
// Join.
func (h *House) Shim(tb testing.TB, o Options) *Shim {
	tb.Helper()
	s := &Shim{tb: tb, Agent: newInbox(), stderr: Buffer{Most: 1 << 20}}
	command := o.Command
	if command == nil {
		l, err := listen(h.Path("run"), o.Stays)
		if err != nil {
			tb.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			tb.Fatal(err)
		}
		s.listen, command = l, []string{self, serverRole, l.path}
	}
	argv := o.Instead
	if argv == nil {
		argv = []string{program(tb, "tg-shim", o.Shipped), "--server-id", or(o.Server, "x")}
		if o.Profile != "" {
			argv = append(argv, "--profile", o.Profile)
		}
		argv = append(append(argv, o.Flags...), "--")
	}
	argv = slices.Concat(argv, command)
	if o.Agent {
		s.passed = h.count(tb)
		argv = append(copier(tb, s.passed), argv...)
	}
	argv = slices.Concat(o.Before, argv)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = slices.Concat(h.Env, []string{"THOUGHTGATE_SOCKET=" + h.Socket()}, o.Env)
	cmd.Dir = h.Path("work")
	cmd.Stderr = &s.stderr
	if o.Terminal {
		master, terminal, err := openTerminal()
		if err != nil {
			tb.Fatal(err)
		}
		cmd.Stderr = terminal
		defer terminal.Close()
		s.read = make(chan struct{})
		go func() { // ends with the last who has the terminal
			defer close(s.read)
			defer master.Close()
			_, _ = io.Copy(&s.stderr, master) // at the end it is an error
		}()
	}
	cmd.WaitDelay = 2 * time.Second
	if err := s.run(cmd, o); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.close)
	return s
}

// Launcher is for Options.Before: a process that starts what is behind it on its
// own standard streams, and ends with it and its status. So the agent is another
// process than the test, and no byte takes a longer way.
func Launcher() []string { return []string{"/bin/sh", "-c", `"$@"; exit $?`, "launcher"} }

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// run starts cmd with pipes of our own: those of exec are closed with the
// process, before the last of what it wrote has been read.
func (s *Shim) run(cmd *exec.Cmd, o Options) error {
	inRead, inWrite, err := ends(o.Sockets, 1)
	if err != nil {
		return err
	}
	outRead, outWrite, err := ends(o.Sockets, 0)
	if err != nil {
		return errors.Join(err, inRead.Close(), inWrite.Close())
	}
	cmd.Stdin, cmd.Stdout = inRead, outWrite
	s.Process = start(s.tb, cmd)
	inRead.Close()
	outWrite.Close()
	s.stdin = inWrite
	go func() { // ends with the shim
		defer outRead.Close()
		if o.Each == nil {
			copyTo(s.Agent, outRead)
			return
		}
		defer s.Agent.end()
		eachLine(outRead, o.Each)
	}()
	return nil
}

// eachLine tells of the whole lines in r until it ends.
func eachLine(r io.Reader, each func(line []byte)) {
	in, long := bufio.NewReaderSize(r, 64<<10), []byte(nil)
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			long = append(long, part...)
		case err != nil:
			return
		case long != nil:
			each(append(long, part...))
			long = nil
		default:
			each(part)
		}
	}
}

func copyTo(b *Inbox, r io.Reader) {
	defer b.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			b.add(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// Join waits for the test's server to be started.
func (s *Shim) Join() error {
	if s.Server != nil {
		return nil
	}
	server, err := s.listen.accept(Patience, s.ended)
	if err != nil {
		return fmt.Errorf("the server is not started: %w\n%s", err, s.Stderr())
	}
	s.Server = server
	return nil
}

// Send writes as the agent. It fails when the shim does not read for Patience,
// or has gone.
func (s *Shim) Send(content []byte) error {
	if f, ok := s.stdin.(*os.File); ok {
		_ = f.SetWriteDeadline(time.Now().Add(Patience))
	}
	_, err := s.stdin.Write(content)
	return err
}

// Passed is how many bytes of what was sent the agent's process has written to
// the shim, at least; see Options.Agent.
func (s *Shim) Passed() int {
	raw, err := os.ReadFile(s.passed)
	if err != nil || len(raw) < 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint64(raw))
}

// count makes a file for a copier to count in.
func (h *House) count(tb testing.TB) string {
	tb.Helper()
	f, err := os.CreateTemp(h.Path("run"), "passed")
	if err != nil {
		tb.Fatal(err)
	}
	f.Close()
	return f.Name()
}

// HangUp closes the shim's standard input.
func (s *Shim) HangUp() { _ = s.stdin.Close() }

// Stderr is what the shim has said on standard error.
func (s *Shim) Stderr() string {
	if s.read != nil && s.HasEnded() {
		<-s.read
	}
	return s.stderr.String()
}

// ShimPID is the process id of the shim itself, also when an agent started it.
// It is 0 while that does not run, and where there is no /proc.
func (s *Shim) ShimPID() int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, err := os.ReadFile(dir + "/cmdline")
		name, args, _ := strings.Cut(string(line), "\x00")
		if err == nil && filepath.Base(name) == "tg-shim" && strings.HasSuffix(args, "\x00"+s.listen.path+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			return pid
		}
	}
	return 0
}

// hangUpGrace is how long clients wait between the end of a server's input and
// SIGTERM.
const hangUpGrace = 2 * time.Second

// close ends the shim as agents do, and waits for the end.
func (s *Shim) close() {
	s.HangUp()
	if _, ok := s.Wait(hangUpGrace); !ok {
		s.Signal(syscall.SIGTERM)
	}
	if _, ok := s.Wait(Patience); !ok {
		if !s.tb.Failed() {
			s.tb.Errorf("the shim does not end when its agent has left\n%s", s.Stderr())
		}
		s.Signal(syscall.SIGKILL)
		s.Wait(Patience)
	}
	if s.listen != nil {
		s.listen.close()
	}
	if s.Server != nil {
		s.Server.close()
	}
}
