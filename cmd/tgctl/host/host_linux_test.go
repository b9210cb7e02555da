package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is seen of the machine that the test runs on agrees with what else is known
// of it.
func TestThisMachine(t *testing.T) {
	if k := LookAtKernel(); !strings.HasPrefix(k.Name, "Linux ") || !k.PIDFD || k.Apart || k.PeerPIDFD && !k.PIDFD {
		t.Errorf("the kernel is %+v", k)
	}
	if s, err := SpaceAt(t.TempDir()); err != nil || s.Free == 0 || s.Files == 0 {
		t.Errorf("room %+v, %v", s, err)
	}
	if _, err := SpaceAt("/nonexistent"); err == nil {
		t.Error("there is room where there is nothing")
	}
	if age, err := Age(int32(os.Getpid())); err != nil || age < 0 || age > time.Hour {
		t.Errorf("this test is %v old, %v", age, err)
	}
	if age, err := Age(1); err != nil || age < time.Second {
		t.Errorf("the first process is %v old, %v", age, err)
	}
}

// Without a manager nothing is asked, and nothing is wrong.
func TestNoManager(t *testing.T) {
	env := map[string]string{"XDG_RUNTIME_DIR": t.TempDir(), "SSH_CONNECTION": "192.0.2.1 22"}
	s, err := LookAtService(t.Context(), func(name string) string { return env[name] })
	if err != nil || s != (Service{Remote: true}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// A systemctl of ours says what systemd would, and what it says is read.
func TestManager(t *testing.T) {
	runtime, bin := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(runtime, "systemd", "private"): "",
		filepath.Join(bin, "systemctl"):              "#!/bin/sh\nprintf 'LoadState=loaded\\nActiveState=failed\\nUnitFileState=enabled\\nMainPID=12\\nNRestarts=3\\n'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	env := map[string]string{"XDG_RUNTIME_DIR": runtime, "XDG_SESSION_TYPE": "wayland"}
	s, err := LookAtService(t.Context(), func(name string) string { return env[name] })
	if want := (Service{Manager: "systemd", Known: true, State: "failed", PID: 12, Restarts: 3, Enabled: true}); err != nil || s != want {
		t.Errorf("%+v, %v; want %+v", s, err, want)
	}
}
