package serve

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// runs reports whether a process exists and has not ended.
func runs(pid int32) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func (s *session) all() []*os.File { return []*os.File{s.in, s.out, s.input, s.output, s.drained} }

// leads returns the targets of a process's descriptors, by number.
func leads(t *testing.T, pid int) map[string]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Skip("it can't be seen what a process has open: ", err)
	}
	to := map[string]string{}
	for _, entry := range all {
		if link, err := os.Readlink(dir + entry.Name()); err == nil {
			to[entry.Name()] = link
		}
	}
	return to
}

// While a server runs, no process has an end of a pipe that it should not have: neither tg-shim
// nor the server has the agent's, nor a descriptor that an agent passed by accident.
func TestNoDescriptorIsLeft(t *testing.T) {
	t.Parallel()
	d := serving(t)
	leaked, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer leaked.Close()
	defer other.Close()
	s := d.startWith(func(c *exec.Cmd) { c.ExtraFiles = []*os.File{leaked, other} }, "cat")
	session := next(t, "Attach", d.attached)
	pid := next(t, "Started", d.started).GetPid()
	ours := leads(t, os.Getpid())
	of := func(f *os.File) string { return ours[fmt.Sprint(f.Fd())] }
	foreign := []string{of(session.in), of(session.out), of(session.input), of(session.output), of(leaked)}
	input, output := of(session.input), of(session.output)
	go session.relay()
	s.say("ready") // so it has opened nothing more
	s.hears("ready")
	eventually(t, "the shim has closed what is not its own", func() bool {
		links := leads(t, s.Process.Pid)
		for _, has := range links {
			if slices.Contains(foreign, has) {
				return false
			}
		}
		return links["0"] == os.DevNull && links["1"] == os.DevNull
	})
	theirs := leads(t, int(pid))
	if len(theirs) != 3 || theirs["0"] != input || theirs["1"] != output {
		t.Errorf("the server has %v", theirs)
	}
	if theirs["2"] != leads(t, s.Process.Pid)["2"] {
		t.Errorf("the server's standard error is %s and the shim's another one", theirs["2"])
	}
	s.in.Close()
	s.ends(0)
}

// Standard input and output may be of any kind, and the daemon gets them unchanged: their
// blocking mode, which others share, must not be changed.
func TestStandardStreams(t *testing.T) {
	t.Parallel()
	d := serving(t)
	file := filepath.Join(t.TempDir(), "out")
	for _, test := range []struct {
		name string
		make func(t *testing.T) (in, out *os.File)
	}{
		{"pipes", func(t *testing.T) (in, out *os.File) {
			var a, b [2]int
			if unix.Pipe2(a[:], unix.O_CLOEXEC) != nil || unix.Pipe2(b[:], unix.O_CLOEXEC) != nil {
				t.Fatal("no pipe")
			}
			closing(t, a[1], b[0])
			return os.NewFile(uintptr(a[0]), "in"), os.NewFile(uintptr(b[1]), "out")
		}},
		{"one socket", func(t *testing.T) (in, out *os.File) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			closing(t, pair[1])
			f := os.NewFile(uintptr(pair[0]), "socket")
			return f, f
		}},
		{"a terminal", func(t *testing.T) (in, out *os.File) {
			ours, theirs, err := pty.Open()
			if err != nil {
				t.Skip("no terminal: ", err)
			}
			t.Cleanup(func() { ours.Close() })
			defer theirs.Close()
			fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0) // so that os does not change its flags
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), "terminal")
			return f, f
		}},
		{"files", func(t *testing.T) (in, out *os.File) {
			out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			in, err = os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			return in, out
		}},
	} {
		for _, nonblocking := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nonblocking %v", test.name, nonblocking), func(t *testing.T) {
				in, out := test.make(t)
				defer in.Close()
				defer out.Close()
				fds := []int{int(in.Fd()), int(out.Fd())}
				for _, fd := range fds {
					if err := unix.SetNonblock(fd, nonblocking); err != nil {
						t.Fatal(err)
					}
				}
				before := flagsOf(t, fds)
				s := d.startWith(func(c *exec.Cmd) { c.Stdin, c.Stdout = in, out }, "sh", "-c", "exit 9")
				session := next(t, "Attach", d.attached)
				next(t, "Started", d.started)
				if now := flagsOf(t, fds); !slices.Equal(now, before) {
					t.Errorf("the flags are %o and were %o", now, before)
				}
				ours := leads(t, os.Getpid())
				if ours[fmt.Sprint(session.in.Fd())] != ours[fmt.Sprint(fds[0])] || ours[fmt.Sprint(session.out.Fd())] != ours[fmt.Sprint(fds[1])] {
					t.Error("the daemon has other descriptors")
				}
				session.drained.Close()
				s.ends(9)
				if now := flagsOf(t, fds); !slices.Equal(now, before) {
					t.Errorf("in the end the flags are %o and were %o", now, before)
				}
			})
		}
	}
}

func closing(t *testing.T, fds ...int) {
	t.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
}

func flagsOf(t *testing.T, fds []int) (all []int) {
	t.Helper()
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, flags)
	}
	return all
}

// EC-STDIO-028: on a terminal a server's standard error is escaped, unless the configuration
// wants it raw. Otherwise the server writes there itself.
func TestStandardError(t *testing.T) {
	t.Parallel()
	const said = `\033[2Jcleared \007\n`
	for _, test := range []struct {
		name          string
		terminal, raw bool
		want          string
	}{
		{"no terminal", false, false, "\x1b[2Jcleared \x07\n"},
		{"a terminal", true, false, `\x1b[2Jcleared \x07` + "\r\n"},
		{"a terminal, raw", true, true, "\x1b[2Jcleared \x07\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := serving(t)
			d.welcomes(func() (*pb.AttachResponse, error) { return &pb.AttachResponse{Start: true, RawStderr: test.raw}, nil })
			ours, theirs, err := os.Pipe()
			if test.terminal {
				ours, theirs, err = pty.Open()
			}
			if err != nil {
				t.Skip(err)
			}
			defer ours.Close()
			s := d.startWith(func(c *exec.Cmd) { c.Stderr = theirs }, "sh", "-c", "printf '"+said+"' >&2; exit 2")
			theirs.Close()
			go next(t, "Attach", d.attached).relay()
			text := make(chan string, 1)
			go func() {
				line, err := bufio.NewReader(ours).ReadString('\n')
				if err != nil && err != io.EOF {
					line += err.Error()
				}
				text <- line
			}()
			if got := next(t, "a line on standard error", text); got != test.want {
				t.Errorf("it reads %q, want %q", got, test.want)
			}
			s.in.Close()
			s.ends(2)
		})
	}
}
