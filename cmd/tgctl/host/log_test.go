package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestErrors checks that only recent errors of a log file are returned.
func TestErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const text = `timestamp=2026-11-20T08:00:00.000Z level=error msg=old
timestamp=2026-11-20T11:00:00.000Z level=info msg="level=error is only quoted"
timestamp=2026-11-20T11:00:01.000Z level=error msg="the self-check failed"
panic: no line of ours
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	got, err := Errors(t.Context(), Log{File: path, Since: since})
	if diff := cmp.Diff([]string{`msg="the self-check failed"`}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if got, err := Errors(t.Context(), Log{File: path + "x", Since: since}); err != nil || got != nil {
		t.Errorf("a file that is not there: %q, %v", got, err)
	}
	if _, err := Errors(t.Context(), Log{File: t.TempDir()}); err == nil {
		t.Error("a folder is read as a log")
	}
}

// TestJournal checks which journal entries are errors: by their priority, or by the level in
// the daemon's own entries, which all have the same priority.
func TestJournal(t *testing.T) {
	bin := t.TempDir()
	const program = `#!/bin/sh
cat <<'END'
{"PRIORITY":"6","MESSAGE":"{\"timestamp\":\"x\",\"level\":\"info\",\"msg\":\"ready\"}"}
{"PRIORITY":"6","MESSAGE":"{\"timestamp\":\"x\",\"level\":\"error\",\"msg\":\"one\",\"err\":\"two\"}"}
{"PRIORITY":"3","MESSAGE":"Failed to start thoughtgated.service"}
{"PRIORITY":"6","MESSAGE":[27,91,50,74]}
{"MESSAGE":"without a priority"}
END
`
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	got, err := Errors(t.Context(), Log{Service: true, Since: time.Now()})
	want := []string{"one: two", "Failed to start thoughtgated.service"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Errors(t.Context(), Log{Service: true}); err == nil {
		t.Error("a journal that can't be read has no errors")
	}
}
