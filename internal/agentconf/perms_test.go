package agentconf

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// accessListOf returns an access list that lets one other user read.
func accessListOf(user uint32, mask uint16) []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, 4, user}, {4, 0, ^uint32(0)}, {0x10, mask, ^uint32(0)}, {0x20, 0, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

func setAttribute(t *testing.T, path, name string, value []byte) {
	t.Helper()
	err := unix.Setxattr(path, name, value, 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skipf("this file system has no attribute %s", name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func attribute(path, name string) string {
	value := make([]byte, 4096)
	n, err := unix.Getxattr(path, name, value)
	if err != nil {
		return err.Error()
	}
	return string(value[:n])
}

// The access list and the attributes of a file are kept, and the list that its folder gives to
// new files is not applied, both during the wrap and afterwards.
func TestKeepsAttributes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("access lists are kept on Linux")
	}
	const list, inherited, note = "system.posix_acl_access", "system.posix_acl_default", "user.note"
	for _, own := range []bool{true, false} {
		w := newWorld(t)
		w.write(w.state(), twoServers)
		if err := os.Chmod(w.state(), 0o640); err != nil {
			t.Fatal(err)
		}
		setAttribute(t, w.state(), note, []byte("of the person"))
		if own {
			setAttribute(t, w.state(), list, accessListOf(1234, 4))
		}
		setAttribute(t, w.home, inherited, accessListOf(4321, 7))
		before := attribute(w.state(), list)
		var st unix.Stat_t
		if err := unix.Stat(w.state(), &st); err != nil {
			t.Fatal(err)
		}
		want := func(when, path string) {
			t.Helper()
			if got := attribute(path, list); got != before {
				t.Errorf("own list %v, %s: the access list is %q, want %q", own, when, got, before)
			}
			if got := attribute(path, note); got != "of the person" {
				t.Errorf("%s: the attribute is %q", when, got)
			}
			wantMode(t, path, os.FileMode(st.Mode&0o777))
		}
		p, _ := w.wrapped()
		want("wrapped", w.state())
		want("backup", w.state()+backupSuffix)
		w.restore(p)
		want("restored", w.state())
		w.wantFile(w.state(), twoServers)
		w.wantClean()
	}
}

// A file whose group is not the primary group of this user keeps its group.
func TestKeepsGroup(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	other := -1
	for _, group := range groups {
		if group != os.Getegid() {
			other = group
		}
	}
	if os.Geteuid() == 0 {
		other = 4321
	}
	if other < 0 {
		t.Skip("this user is in one group only")
	}
	if err := os.Chown(w.state(), -1, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.state(), 0o660); err != nil {
		t.Fatal(err)
	}
	want := func() {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(w.state(), &st); err != nil || int(st.Gid) != other {
			t.Errorf("the group is %d, want %d, %v", st.Gid, other, err)
		}
		wantMode(t, w.state(), 0o660)
	}
	p, _ := w.wrapped()
	want()
	w.restore(p)
	want()
	w.wantFile(w.state(), twoServers)
}

// A file of another user, or of a group without this user, is refused, because its owner could
// not be restored. Nothing is changed.
func TestAnothersFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can give files away")
	}
	tests := []struct {
		name     string
		uid, gid int
		says     string
	}{
		{"another user's", 1234, unprivileged, "belongs to another user (1234)"},
		{"another group's", unprivileged, 4321, "keep the owner and group of"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := killWorld(t)
			w.giveAway()
			if err := os.Chown(w.state(), test.uid, test.gid); err != nil {
				t.Fatal(err)
			}
			out, err := w.unprivileged("wrap", 0).CombinedOutput()
			if err == nil {
				t.Fatal("it was wrapped")
			}
			wantError(t, errors.New(string(out)), test.says)
			w.wantOriginals("being refused")
			w.wantClean()
			if left, _ := filepath.Glob(filepath.Join(w.home, "..", "journals", "*")); len(left) > 0 {
				t.Error("a journal was stored")
			}
		})
	}
}
