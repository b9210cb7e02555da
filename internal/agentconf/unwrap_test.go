package agentconf

import (
	"os"
	"strings"
	"testing"
)

func TestUnwrap(t *testing.T) {
	wrappedText := func(t *testing.T, text string) (*world, string) {
		w := newWorld(t)
		w.write(w.state(), text)
		p, _ := w.wrapped()
		p.Unlock()
		return w, w.read(w.state())
	}
	t.Run("as it was left", func(t *testing.T) {
		w, _ := wrappedText(t, twoServers)
		report, err := Unwrap(w.state(), w.notes())
		if err != nil || report.State != Restored || report.String() != "" {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantFile(w.state(), twoServers)
		w.wantClean()
		report, err = Unwrap(w.state(), w.notes())
		if err != nil || report.State != Untouched {
			t.Errorf("again: %+v, %v", report, err)
		}
	})
	t.Run("written since", func(t *testing.T) {
		w, text := wrappedText(t, twoServers)
		w.write(w.state(), strings.Replace(text, "{\n", "{\n  \"n\": 1,\n", 1))
		report, err := Unwrap(w.state(), w.notes())
		if err != nil || report.State != Merged || !strings.Contains(report.String(), "differs from the current file") {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantFile(w.state(), strings.Replace(twoServers, "{\n", "{\n  \"n\": 1,\n", 1))
		w.wantFile(w.state()+backupSuffix, twoServers)
	})
	t.Run("without a backup", func(t *testing.T) {
		w, _ := wrappedText(t, `{"mcpServers":{"a":{"command":"x","args":["y"],"env":{"K":"v"}},"b":{"command":"z"}}}`)
		os.Remove(w.state() + backupSuffix)
		report, err := Unwrap(w.state(), w.notes())
		if err != nil || report.State != Merged {
			t.Errorf("%+v, %v", report, err)
		}
		// What was absent and what was empty look the same now.
		w.wantFile(w.state(), `{"mcpServers":{"a":{"command":"x","args":["y"],"env":{"K":"v"}},"b":{"args":[],"env":{},"command":"z"}}}`)
	})
	t.Run("of a project, without a backup", func(t *testing.T) {
		w := newWorld(t)
		const text = `{"mcpServers":{"a":{"command":"x","args":["--from","y"],"env":{"K":"v","L":"w"}}}}`
		w.write(w.project(), text)
		p, _ := w.wrapped()
		p.Unlock()
		if now := w.read(w.project()); !strings.Contains(now, `"--from"`) || strings.Count(now, `"--sets"`) != 2 {
			t.Errorf("rewritten:\n%s", now)
		}
		os.Remove(w.project() + backupSuffix)
		if report, err := Unwrap(w.project(), w.notes()); err != nil || report.State != Merged {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantFile(w.project(), text)
	})
	t.Run("beside an older backup", func(t *testing.T) {
		w := newWorld(t)
		w.write(w.state()+backupSuffix, `{"mcpServers":{"clock":{"command":"old-clock"}}}`)
		w.write(w.state(), twoServers)
		p, _ := w.wrapped()
		p.Unlock()
		report, err := Unwrap(w.state(), w.notes())
		if err != nil || report.State != Restored || report.Backup != w.state()+backupSuffix {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantFile(w.state(), twoServers)
	})
	t.Run("broken since", func(t *testing.T) {
		w, text := wrappedText(t, twoServers)
		w.write(w.state(), text[:len(text)-10])
		report, err := Unwrap(w.state(), w.notes())
		if err != nil || report.State != Restored || !strings.Contains(report.String(), "the file was invalid") {
			t.Errorf("%+v, %v", report, err)
		}
		w.wantFile(w.state(), twoServers)
		w.wantFile(w.state()+alteredSuffix, text[:len(text)-10])
	})
	t.Run("broken by its owner", func(t *testing.T) {
		w, _ := wrappedText(t, twoServers)
		w.write(w.state(), "{ a person is editing")
		_, err := Unwrap(w.state(), w.notes())
		wantError(t, err, "it has no tg-shim entries", backupSuffix+" is a backup")
		w.wantFile(w.state(), "{ a person is editing")
	})
	t.Run("nothing there", func(t *testing.T) {
		w := newWorld(t)
		_, err := Unwrap(w.state(), w.notes())
		wantError(t, err, w.state()+" does not exist and has no backup")
		w.wantClean()
	})
	t.Run("lines of any session, anywhere", func(t *testing.T) {
		w := newWorld(t)
		line := `{"command":"/gone/tg-shim","args":["--profile","production","--server-id","a","--","x","y"],"env":{"THOUGHTGATE_SESSION":"old","K":"v","THOUGHTGATE_SOCKET":"/s"}}`
		w.write(w.state(), `{"projects":{"/p":{"mcpServers":{"a":`+line+`}}},"list":[`+line+`],"mcpServers":{"not":{"command":"tg-shim","args":["--help"]}}}`)
		report, err := Unwrap(w.state(), w.notes())
		if err != nil || report.State != Merged {
			t.Errorf("%+v, %v", report, err)
		}
		plain := `{"command":"x","args":["y"],"env":{"K":"v"}}`
		w.wantFile(w.state(), `{"projects":{"/p":{"mcpServers":{"a":`+plain+`}}},"list":[`+plain+`],"mcpServers":{"not":{"command":"tg-shim","args":["--help"]}}}`)
	})
}
