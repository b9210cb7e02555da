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

// Options are the options of a tg-shim. The zero value wraps the test's server.
type Options struct {
	Server  string   // server id; "x" if empty
	Profile string   // value of --profile; no flag if empty
	Flags   []string // more flags of tg-shim
	Env     []string // added to the environment of the Fixture
	Command []string // wrapped in place of the test's server
	Instead []string // started in place of tg-shim, followed by the server's command line
	Shipped bool     // use a tg-shim without the race detector

	// Agent puts a process between the test and tg-shim, which starts tg-shim and can be
	// killed. Process is that process then.
	Agent bool

	// Before is a program with its first arguments that is started with the command line of
	// tg-shim as further arguments, and starts that; see Launcher. Process is that program
	// then.
	Before []string

	// Through is a program with its first arguments that is wrapped in place of the test's server. It
	// is started with the command line of that as further arguments, and starts that.
	Through []string

	// Remote gives tg-shim --remote in place of a command line: its server is behind an address, which
	// the session in Env has. Behind is then called with the command line of the test's server,
	// which it starts behind that address; if it is nil, the test has no such server.
	Remote bool
	Behind func(command []string)

	// Each is called with each line that the agent receives, including the line feed, and then
	// Agent does not keep the lines: for tests with too many of them. Each must not retain the
	// line.
	Each func(line []byte)

	// Sockets makes the standard input and output of tg-shim sockets, as Node.js does.
	Sockets bool

	// Terminal makes the standard error of tg-shim a terminal.
	Terminal bool

	// Stays makes the test's server continue after its standard input has ended.
	Stays bool
}

// Shim is a tg-shim with the test at both ends.
type Shim struct {
	*Process
	tb     testing.TB
	listen *listener

	// Agent holds what the agent has received.
	Agent *Inbox

	// Server is the wrapped server, once Join has returned.
	Server *Server

	passed string // file in which the agent's process counts, if there is one
	stdin  io.WriteCloser
	stderr Buffer
	read   chan struct{} // closed when stderr has been read; nil without a terminal
}

// Shim starts a tg-shim, which is stopped when tb ends. It does not wait for anything; see
// Join.
func (h *Fixture) Shim(tb testing.TB, o Options) *Shim {
	tb.Helper()
	s := &Shim{tb: tb, Agent: newInbox(), stderr: Buffer{Most: 1 << 20}}
	command := o.Command
	if command == nil && (!o.Remote || o.Behind != nil) {
		l, err := listen(h.Path("run"), o.Stays)
		if err != nil {
			tb.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			tb.Fatal(err)
		}
		s.listen, command = l, slices.Concat(o.Through, []string{self, serverRole, l.path})
	}
	argv := o.Instead
	if argv == nil {
		argv = append(shimLine(tb, o), "--")
		if o.Remote {
			argv[len(argv)-1] = "--remote"
			if o.Behind != nil {
				o.Behind(command)
			}
			command = nil
		}
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
		go func() { // ends when the last process has closed the terminal
			defer close(s.read)
			defer master.Close()
			_, _ = io.Copy(&s.stderr, master) // it ends with an error
		}()
	}
	cmd.WaitDelay = 2 * time.Second
	if err := s.run(cmd, o); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.close)
	return s
}

// shimLine returns the command line of tg-shim up to what it wraps.
func shimLine(tb testing.TB, o Options) []string {
	argv := []string{program(tb, "tg-shim", o.Shipped), "--server-id", or(o.Server, "x")}
	if o.Profile != "" {
		argv = append(argv, "--profile", o.Profile)
	}
	return append(argv, o.Flags...)
}

// Launcher returns a value for Options.Before: a process that starts the rest of its command
// line on its own standard streams and exits as that does. So the agent is another process than
// the test, but the data takes no detour.
func Launcher() []string { return []string{"/bin/sh", "-c", `"$@"; exit $?`, "launcher"} }

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// run starts cmd with pipes of our own: those of os/exec are closed with the process, before
// the rest of its output has been read.
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
	go func() { // ends with tg-shim
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

// eachLine calls each with every complete line in r until r ends.
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

// Join waits until the test's server has started.
func (s *Shim) Join() error {
	if s.Server != nil {
		return nil
	}
	server, err := s.listen.accept(Timeout, s.ended)
	if err != nil {
		return fmt.Errorf("the server is not started: %w\n%s", err, s.Stderr())
	}
	s.Server = server
	return nil
}

// Send writes as the agent. It fails if tg-shim does not read for Patience, or has ended.
func (s *Shim) Send(content []byte) error {
	if f, ok := s.stdin.(*os.File); ok {
		_ = f.SetWriteDeadline(time.Now().Add(Timeout))
	}
	_, err := s.stdin.Write(content)
	return err
}

// Passed returns how many of the sent bytes the agent's process has written to tg-shim, at
// least; see Options.Agent.
func (s *Shim) Passed() int {
	raw, err := os.ReadFile(s.passed)
	if err != nil || len(raw) < 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint64(raw))
}

// count creates a file for a copier to count in.
func (h *Fixture) count(tb testing.TB) string {
	tb.Helper()
	f, err := os.CreateTemp(h.Path("run"), "passed")
	if err != nil {
		tb.Fatal(err)
	}
	f.Close()
	return f.Name()
}

// HangUp closes the standard input of tg-shim.
func (s *Shim) HangUp() { _ = s.stdin.Close() }

// Stderr returns what tg-shim has written to standard error.
func (s *Shim) Stderr() string {
	if s.read != nil && s.HasEnded() {
		<-s.read
	}
	return s.stderr.String()
}

// ShimPID returns the process id of tg-shim itself, even if an agent started it. It is 0 while
// tg-shim does not run, and without /proc.
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

// hangUpGrace is how long clients wait between closing a server's input and SIGTERM.
const hangUpGrace = 2 * time.Second

// close stops tg-shim as agents do, and waits for its end.
func (s *Shim) close() {
	s.HangUp()
	if _, ok := s.Wait(hangUpGrace); !ok {
		s.Signal(syscall.SIGTERM)
	}
	if _, ok := s.Wait(Timeout); !ok {
		if !s.tb.Failed() {
			s.tb.Errorf("the shim does not end when its agent has left\n%s", s.Stderr())
		}
		s.Signal(syscall.SIGKILL)
		s.Wait(Timeout)
	}
	if s.listen != nil {
		s.listen.close()
	}
	if s.Server != nil {
		s.Server.close()
	}
}
