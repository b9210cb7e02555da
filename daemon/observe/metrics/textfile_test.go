package metrics

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// entries returns the names of the entries of a folder.
func entries(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestTextfile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		open := 0
		m := New("dev", func() State { open++; return State{Open: open} })
		f := m.NewTextfile(slog.New(slog.DiscardHandler))
		path := filepath.Join(dir, "tg.prom")
		if err := os.WriteFile(filepath.Join(dir, ".tg.prom.tmp"), []byte("left by a daemon that died"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.Set(path, 15*time.Second)
		for _, want := range []string{"thoughtgate_approvals_open 1\n", "thoughtgate_approvals_open 2\n"} {
			synctest.Wait()
			text, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(text, []byte(want)) {
				t.Fatalf("%v\n%s\nwant %s", err, text, want)
			}
			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
			if err != nil {
				t.Error(err)
			}
			for name := range families {
				if !strings.HasPrefix(name, "thoughtgate_") {
					t.Errorf("the exporter tells of %s itself, and refuses a second one", name)
				}
			}
			time.Sleep(15 * time.Second)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 || entries(t, dir) != "tg.prom" {
			t.Errorf("got %v %v, beside %s", info.Mode(), err, entries(t, dir))
		}
		f.Set(filepath.Join(dir, "other.prom"), time.Minute)
		synctest.Wait()
		if got := entries(t, dir); got != "other.prom" {
			t.Errorf("under another name: %s", got)
		}
		f.Close()
		if got := entries(t, dir); got != "" {
			t.Errorf("at the end %s is left", got)
		}
	})
}

// A failure to write is logged once, and so is its end.
func TestTextfileFailure(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log rig.Buffer
		f := New("dev", func() State { return State{} }).NewTextfile(slog.New(slog.NewTextHandler(&log, nil)))
		defer f.Close()
		missing := filepath.Join(dir, "collector")
		f.Set(filepath.Join(missing, "tg.prom"), time.Second)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := f.Failure(); err == nil || strings.Count(log.String(), "not up to date") != 1 {
			t.Errorf("got %v, log %s", err, log.String())
		}
		if err := os.Mkdir(missing, 0o755); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := f.Failure(); err != nil || strings.Count(log.String(), "written again") != 1 {
			t.Errorf("got %v, log %s", err, log.String())
		}
		// A file that is not the Textfile's own stays.
		link := filepath.Join(dir, "link.prom")
		if err := os.Symlink("/etc/passwd", link); err != nil {
			t.Fatal(err)
		}
		f.Set(link, time.Second)
		synctest.Wait()
		if err := f.Failure(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("got %v", err)
		}
		f.Set("", time.Second)
		synctest.Wait()
		if err := f.Failure(); err != nil {
			t.Errorf("without a file: %v", err)
		}
		if got := entries(t, dir); got != "collector link.prom" || entries(t, missing) != "" {
			t.Errorf("left: %s, %s", got, entries(t, missing))
		}
	})
}
