package keep_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

const (
	roleVariable    = "KEEP_TEST_ROLE"
	socketVariable  = "KEEP_TEST_SOCKET"
	programVariable = "KEEP_TEST_PROGRAM"
)

// TestMain lets the test binary be a daemon, or its keeper.
func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "keeper":
		code, err := keeper()
		if err != nil {
			fmt.Fprintln(os.Stderr, "keeper:", err)
			code = 99
		}
		os.Exit(code)
	case "daemon":
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "daemon:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func keeper() (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP, keep.Again)
	path := os.Getenv(socketVariable)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return 0, err
	}
	f, err := l.File()
	if err != nil {
		return 0, err
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	os.Setenv(roleVariable, "daemon")
	return keep.Run(keep.Program{
		Path: os.Getenv(programVariable), Args: []string{"daemon"}, Env: os.Environ(), Log: slog.New(slog.DiscardHandler),
		Sockets: map[string]*os.File{"control": f}, Leave: func() { os.Remove(path) }, StopTimeout: 2 * time.Second,
	}, signals)
}

// daemon keeps sessions, and echoes every byte of an agent.
type daemon struct {
	store    *keep.Store
	sessions atomic.Int64
	next     atomic.Int64
}

func serve() error {
	ctx := context.Background()
	store, err := keep.Open()
	if err != nil {
		return err
	}
	d := &daemon{store: store}
	socket, err := store.Socket("control")
	if err != nil {
		return err
	}
	l, err := net.FileListener(socket)
	socket.Close()
	if err != nil {
		return err
	}
	sessions, strays, err := store.Take(ctx)
	if err != nil {
		return err
	}
	for _, s := range strays {
		fmt.Fprintln(os.Stderr, "stray:", s.Name, s.End, s.Why)
	}
	for _, s := range sessions {
		for i, f := range s.Files {
			if f == nil {
				return fmt.Errorf("session %s has lost its descriptor %d", s.Name, i)
			}
		}
		d.run(s.Name, s.Mapping, s.Files)
	}
	d.next.Store(int64(os.Getpid()) << 16) // names that no other daemon uses
	if err := store.Notify(ctx, "READY=1"); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go d.attend(c.(*net.UnixConn))
	}
}

// attend handles one connection by its first byte. "a" comes with an agent's two descriptors,
// "p" requests the process id, "n" the numbers of sessions and of kept descriptors, "e" the
// end, "f" a failure, and "l" whether the keeper has exited.
func (d *daemon) attend(c *net.UnixConn) {
	defer c.Close()
	b, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(16))
	_, m, _, _, err := c.ReadMsgUnix(b, rights)
	if err != nil {
		return
	}
	switch b[0] {
	case 'p':
		fmt.Fprintln(c, os.Getpid())
	case 'n':
		n, _ := d.store.Kept()
		fmt.Fprintln(c, d.sessions.Load(), n)
	case 'e':
		os.Exit(0)
	case 'f':
		os.Exit(3)
	case 'l':
		fmt.Fprintln(c, d.store.AwaitKeeperEnd(context.Background()))
	case 'a':
		if err := d.attach(rights[:m]); err != nil {
			fmt.Fprintln(c, "refused:", err)
			return
		}
		fmt.Fprintln(c, "welcome")
	}
}

func (d *daemon) attach(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("rights: %d, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	m, err := mapping.Create(1 << 10)
	if err != nil {
		return err
	}
	staging, err := stagingPipe()
	if err != nil {
		return err
	}
	files := []*os.File{staging}
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "agent"))
	}
	ends := make([]mapping.End, len(files))
	for i, f := range files {
		if ends[i], err = mapping.EndOf(f); err != nil {
			return err
		}
	}
	if err := m.SetEnds(ends...); err != nil {
		return err
	}
	name := fmt.Sprintf("s%x", d.next.Add(1))
	if err := d.store.Keep(context.Background(), name, append(files, m.File())...); err != nil {
		return errors.Join(err, end(m, files))
	}
	d.run(name, m, files)
	return nil
}

func stagingPipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", r.Fd()), os.O_RDWR, 0)
}

func end(m *mapping.Mapping, files []*os.File) error {
	err := m.Close()
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// run serves a session until its agent leaves.
func (d *daemon) run(name string, m *mapping.Mapping, files []*os.File) {
	d.sessions.Add(1)
	in, out := files[1], files[len(files)-1]
	go func() {
		b := make([]byte, 1)
		for {
			n, err := in.Read(b)
			if n == 0 || err != nil {
				break
			}
			if _, err := out.Write(b[:n]); err != nil {
				break
			}
		}
		if err := errors.Join(d.store.Drop(context.Background(), name), end(m, files)); err != nil {
			fmt.Fprintln(os.Stderr, "drop:", err)
		}
		d.sessions.Add(-1)
	}()
}

// ask sends one request to a daemon and returns its answer.
func ask(path, what string, fds ...int) (string, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", err
	}
	defer c.Close()
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix([]byte(what), rights, nil); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return strings.TrimSpace(string(answer)), err
}
