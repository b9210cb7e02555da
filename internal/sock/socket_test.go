package sock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

func TestListenAndDial(t *testing.T) {
	path := private(t) + "/x.sock"
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket's mode is %v, %v; want 0600", info.Mode(), err)
	}
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 5)
	if _, err := c.Read(b); err != nil || string(b) != "hello" {
		t.Errorf("read %q, %v", b, err)
	}
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestListenWherePathIsTaken(t *testing.T) {
	for _, test := range []struct {
		name string
		take func(t *testing.T, path string)
		want error // nil: replaced
		says string
	}{
		{"left behind", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			l.Close()
		}, nil, ""},
		{"served", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, ErrInUse, fmt.Sprintf("used by pid %d", os.Getpid())},
		{"a file", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrUnsafe, "not a socket"},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrUnsafe, "not a socket"},
		{"a link to a socket", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path+"2")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, ErrUnsafe, "symbolic link"},
		{"of another user", func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root, to play a second user")
			}
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}, ErrUnsafe, "belongs to uid 65534"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := private(t) + "/x.sock"
			test.take(t, path)
			before, _ := os.Lstat(path)
			l, err := Listen(path)
			if err == nil {
				defer l.Close()
			}
			if !errors.Is(err, test.want) || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Fatalf("error %v, want %v and %q", err, test.want, test.says)
			}
			if after, err := os.Lstat(path); test.want != nil && (err != nil || !os.SameFile(before, after)) {
				t.Errorf("what stood there was touched: %v", err)
			}
		})
	}
}

func TestSocketPathTooLong(t *testing.T) {
	dir := private(t) + "/" + strings.Repeat("long", 25)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exact", "over"} {
		path := dir + "/" + name
		over := len(path) + 1 - maxSocketPath
		short := path[:len(dir)-max(over, 0)+boolInt(name == "exact")]
		if err := os.MkdirAll(short, 0o700); err != nil {
			t.Fatal(err)
		}
		path = short + "/" + name
		l, err := Listen(path)
		if err == nil {
			l.Close()
		}
		_, dialErr := Dial(t.Context(), path)
		if len(path) <= maxSocketPath {
			if err != nil || !errors.Is(dialErr, fs.ErrNotExist) {
				t.Errorf("%d bytes: %v and %v, want it to fit", len(path), err, dialErr)
			}
			continue
		}
		for _, err := range []error{err, dialErr} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("allows ", maxSocketPath)) || !strings.Contains(err.Error(), "set ") {
				t.Errorf("%d bytes: %v, want the limit and what to do", len(path), err)
			}
		}
	}
	if _, err := Listen("@abstract"); err == nil {
		t.Error("an abstract socket was taken, which anybody can connect to")
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestDialRefusals(t *testing.T) {
	path := private(t) + "/x.sock"
	if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v, want fs.ErrNotExist", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := Dial(t.Context(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v, want ECONNREFUSED", err)
	}
	// Another user listens, and the file has been made to look like one of this user.
	open := private(t)
	cmd := asNobody(t, rig.As("squat", open+"/x.sock"))
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	squatter := rig.Start(t, cmd)
	if got := squatter.Line(t); got != "ready" {
		t.Fatal(got)
	}
	if err := errors.Join(os.Chmod(open, 0o700), os.Chown(open+"/x.sock", 0, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), open+"/x.sock"); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "uid 65534 listens there") {
		t.Errorf("another user's daemon: %v, want ErrUnsafe", err)
	}
}

func TestLock(t *testing.T) {
	path := private(t) + "/lock"
	holder := rig.Start(t, rig.As("lock", path))
	if got := holder.Line(t); got != "locked <nil>" {
		t.Fatal(got)
	}
	f, err := Lock(path)
	if want := fmt.Sprintf("by pid %d", holder.Process.Pid); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, %v; want ErrInUse %s", f, err, want)
	}
	holder.Process.Kill()
	holder.End()
	if f, err = Lock(path); err != nil {
		t.Fatalf("after its holder was killed: %v", err)
	}
	defer f.Close()
	if b, _ := os.ReadFile(path); string(b) != fmt.Sprint(os.Getpid()) {
		t.Errorf("the lock says %q, want our pid", b)
	}
	if info, _ := f.Stat(); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	for _, squat := range []struct {
		name string
		make func(string) error
	}{
		{"a link", func(p string) error { return os.Symlink(path, p) }},
		{"a pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{"a folder", func(p string) error { return os.Mkdir(p, 0o700) }},
	} {
		at := private(t) + "/lock"
		if err := squat.make(at); err != nil {
			t.Fatal(err)
		}
		if f, err := Lock(at); err == nil {
			f.Close()
			t.Errorf("%s was taken for a lock", squat.name)
		}
	}
}

func TestLockIsTakenByOne(t *testing.T) {
	path := private(t) + "/lock"
	const rivals = 8
	got := make(chan *os.File, rivals)
	for range rivals {
		go func() {
			f, err := Lock(path)
			if err != nil && !errors.Is(err, ErrInUse) {
				t.Error(err)
			}
			got <- f
		}()
	}
	var winners []*os.File
	for range rivals {
		if f := <-got; f != nil {
			winners = append(winners, f)
			defer f.Close()
		}
	}
	if len(winners) != 1 {
		t.Errorf("%d hold the lock", len(winners))
	}
}

// A holder that has not written yet who it is, or that only looks for one, is waited for.
func TestLockWaitsForItsHolder(t *testing.T) {
	for name, then := range map[string]func(f *os.File) error{
		"writes": func(f *os.File) error { _, err := f.WriteString(fmt.Sprint(os.Getpid())); return err },
		"leaves": (*os.File).Close,
	} {
		path := private(t) + "/lock"
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = flock(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		done := make(chan error)
		go func() {
			got, err := Lock(path)
			if err == nil {
				got.Close()
			}
			done <- err
		}()
		if err := then(f); err != nil {
			t.Fatal(err)
		}
		err = <-done
		if named := fmt.Sprintf("by pid %d", os.Getpid()); (err == nil) != (name == "leaves") || err != nil && !strings.Contains(err.Error(), named) {
			t.Errorf("it %s: %v", name, err)
		}
	}
}
