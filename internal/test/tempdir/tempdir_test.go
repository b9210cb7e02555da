package tempdir

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// childVar names the folder in which the restarted test binary creates one.
const childVar = "TEMPDIR_TEST_PARENT"

func TestMain(m *testing.M) {
	if parent := os.Getenv(childVar); parent != "" {
		dir, _, err := Make(parent, "x")
		if err != nil {
			dir = err.Error()
		}
		os.Stdout.WriteString(dir + "\n")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts a process that creates a folder in parent, and returns the folder and a function
// that kills the process.
func child(t *testing.T, parent string) (dir string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+parent)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := false
	kill = func() {
		if !over {
			over = true
			cmd.Process.Kill()
			cmd.Wait()
			in.Close()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), kill
}

// The next test removes what a killed test has left, with all that is in it. It keeps the
// folders of running tests, and everything else.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	lives, _ := child(t, parent)
	left, kill := child(t, parent)
	if err := os.WriteFile(filepath.Join(left, "program"), []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	kill()
	stay := []string{lives}
	foreign := func(name, mark string) string {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if mark != "" {
			if err := os.WriteFile(filepath.Join(dir, markName), []byte(mark), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stay = append(stay, dir)
		return dir
	}
	foreign("unmarked", "")
	foreign("other", strings.ToUpper(markText))
	foreign("longer", markText+"\n")
	linked := foreign("linked", "")
	elsewhere := filepath.Join(parent, "mark")
	if err := os.WriteFile(elsewhere, []byte(markText), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(linked, markName)); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, markName), []byte(markText), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(parent, "link")); err != nil {
		t.Fatal(err)
	}
	stay = append(stay, outside)

	dir, remove, err := Make(parent, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(stay, dir) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s was left by a process that is gone, and stays", left)
	}
	remove()
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s stays at the end of its test", dir)
	}
}
