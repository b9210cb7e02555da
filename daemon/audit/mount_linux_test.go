package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

func init() {
	parts["small file system"] = onASmallFileSystem
	parts["read-only file system"] = onAReadOnlyFileSystem
}

// inNamespace runs a part in its own mount and user namespaces, where it may mount a file
// system that nobody else sees.
func inNamespace(t *testing.T, part string) {
	t.Helper()
	try := exec.Command("true")
	apart := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	try.SysProcAttr = apart
	if err := try.Run(); err != nil {
		t.Skipf("this machine allows no user namespace: %v", err)
	}
	cmd := child(t, part, t.TempDir())
	cmd.SysProcAttr = apart
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}

func mount(dir string, flags uintptr) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size=256k,mode=700"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

func onASmallFileSystem(dir string) error {
	if err := mount(dir, 0); err != nil {
		return err
	}
	filler := filepath.Join(dir, "filler")
	fill := func(room bool) error {
		if room {
			// The last step needs more space than there was at first.
			return errors.Join(os.Remove(filler), unix.Mount("", dir, "", unix.MS_REMOUNT, "size=8m"))
		}
		f, err := os.Create(filler)
		if err != nil {
			return err
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		return f.Close()
	}
	return errors.Join(steps(filepath.Join(dir, "one"), 0, fill), steps(filepath.Join(dir, "two"), 1, fill))
}

// The daemon starts even if the disk is full or read-only: it refuses with one reason,
// and continues when the disk is usable again.
func onAReadOnlyFileSystem(dir string) error {
	if err := errors.Join(mount(dir, 0), unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
		return err
	}
	now := time.Now()
	audit := filepath.Join(dir, "audit")
	l, err := Open(audit, Options{Now: func() time.Time { return now }})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	put := func() error {
		return l.Record(context.Background(), &record.Record{Kind: record.KindCall}, []byte(`{}`), nil)
	}
	for range 3 {
		if err := put(); !errors.Is(err, gate.ErrUnrecorded) || !errors.Is(err, unix.EROFS) || l.Failure() == nil {
			return fmt.Errorf("read-only: %v", err)
		}
	}
	none := func(uint64, []byte, []byte) error { return errors.New("there is a record") }
	if err := l.Read(context.Background(), Query{}, none); err != nil {
		return err
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
		return err
	}
	now = now.Add(time.Second)
	if err := errors.Join(put(), put(), l.Failure(), l.Close()); err != nil {
		return fmt.Errorf("writable again: %w", err)
	}
	return gapped(audit, "read-only file system")
}

func TestASmallFileSystem(t *testing.T)    { inNamespace(t, "small file system") }
func TestAReadOnlyFileSystem(t *testing.T) { inNamespace(t, "read-only file system") }
