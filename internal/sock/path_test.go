package sock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if n, value, _ := strings.Cut(pair, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestPathNames(t *testing.T) {
	p := Paths{Config: "/c", State: "/s", Runtime: "/r"}
	got := []string{p.ControlSocket(), p.ShimSocket(), p.LockFile(), p.AuditDir(), p.StateDB(), p.ConfigFile(), p.LogFile()}
	want := []string{"/r/control.sock", "/r/shim.sock", "/r/thoughtgated.lock", "/s/audit", "/s/state.db", "/c/thoughtgate.yaml", "/s/thoughtgated.log"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
}

func TestPrepare(t *testing.T) {
	base := private(t)
	p := Paths{State: filepath.Join(base, "a", "b", "state"), Runtime: filepath.Join(base, "a", "b", "state", "run")}
	for range 2 { // the second time they exist
		if err := p.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{filepath.Join(base, "a"), p.State, p.Runtime} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v; want a folder of mode 0700", dir, info.Mode(), err)
		}
	}
	if err := (Paths{State: "relative", Runtime: p.Runtime}).Prepare(); err == nil {
		t.Error("a relative folder was taken")
	}
}

// All variants of a path that somebody else created first. All functions reject the same
// folders.
func TestSquattedFolder(t *testing.T) {
	chown := func(t *testing.T, path string) {
		if os.Geteuid() != 0 {
			t.Skip("needs root, to play a second user")
		}
		if err := os.Lchown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		dir    string // below the base
		squat  func(t *testing.T, base, dir string)
		says   string
		unsafe bool
	}{
		{"open to all", "d", func(t *testing.T, base, dir string) {
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Chmod(dir, 0o777))
		}, "chmod 700", true},
		{"readable by the group", "d", func(t *testing.T, base, dir string) {
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Chmod(dir, 0o740))
		}, "chmod 700", true},
		{"a link to a folder of ours", "d", func(t *testing.T, base, dir string) {
			must(t, os.Mkdir(base+"/real", 0o700))
			must(t, os.Symlink(base+"/real", dir))
		}, "symbolic link", true},
		{"a link to nothing", "d", func(t *testing.T, base, dir string) {
			must(t, os.Symlink(base+"/none", dir))
		}, "symbolic link", true},
		{"a file", "d", func(t *testing.T, base, dir string) {
			must(t, os.WriteFile(dir, nil, 0o600))
		}, "not a folder", false},
		{"of another user", "d", func(t *testing.T, base, dir string) {
			must(t, os.Mkdir(dir, 0o700))
			chown(t, dir)
		}, "belongs to uid 65534", true},
		{"below a folder of another user", "up/d", func(t *testing.T, base, dir string) {
			must(t, os.MkdirAll(dir, 0o700))
			chown(t, filepath.Dir(dir))
		}, " belongs to uid 65534", true},
		{"below a folder that all may write to", "up/d", func(t *testing.T, base, dir string) {
			must(t, os.MkdirAll(dir, 0o700))
			must(t, os.Chmod(filepath.Dir(dir), 0o777))
		}, "chmod go-w", true},
		{"below a folder that a foreign group may write to", "up/d", func(t *testing.T, base, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root, to play a second user")
			}
			must(t, os.MkdirAll(dir, 0o700))
			must(t, os.Chown(filepath.Dir(dir), -1, nobody))
			must(t, os.Chmod(filepath.Dir(dir), 0o770))
		}, "chmod go-w", true},
		{"below a link that another user made", "link/d", func(t *testing.T, base, dir string) {
			must(t, os.MkdirAll(base+"/real/d", 0o700))
			must(t, os.Symlink(base+"/real", base+"/link"))
			chown(t, base+"/link")
		}, " belongs to uid 65534", true},
		{"below a link of ours into an open folder", "link/d", func(t *testing.T, base, dir string) {
			must(t, os.MkdirAll(base+"/open/real/d", 0o700))
			must(t, os.Chmod(base+"/open", 0o777))
			must(t, os.Symlink(base+"/open/real", base+"/link"))
		}, "chmod go-w", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := private(t)
			dir := filepath.Join(base, test.dir)
			test.squat(t, base, dir)
			check := func(who string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, ErrUnsafe) != test.unsafe {
					t.Errorf("%s: %v; want %q, unsafe %v", who, err, test.says, test.unsafe)
				}
			}
			check("Prepare", Paths{State: dir, Runtime: dir}.Prepare())
			if test.name != "a link to nothing" && test.name != "a file" {
				_, err := Listen(dir + "/x.sock")
				check("Listen", err)
				if err := os.WriteFile(dir+"/x.sock", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				_, err = Dial(t.Context(), dir+"/x.sock")
				check("Dial", err)
			}
		})
	}
	t.Run("links of ours above are followed", func(t *testing.T) {
		base := private(t)
		must(t, os.Mkdir(base+"/real", 0o755))
		must(t, os.Symlink(base+"/real", base+"/link"))
		if err := (Paths{State: base + "/link/state", Runtime: base + "/link/run"}).Prepare(); err != nil {
			t.Error(err)
		}
	})
}
