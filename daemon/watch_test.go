package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// A daemon is reported alive as long as each of its parts responds in time, and not any more once a
// part hangs.
func TestWatch(t *testing.T) {
	const every = 10 * time.Second
	for _, test := range []struct {
		name  string
		stage func(ctx context.Context, hang chan struct{}) error // what the injected part does from the fourth check on
		beats int                                                 // in 100 s
		says  string
	}{
		{"answers", func(context.Context, chan struct{}) error { return nil }, 11, ""},
		{"hangs", func(_ context.Context, hang chan struct{}) error { <-hang; return nil }, 3, "the self-check hangs"},
		{"gives up when its time is over", func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }, 3, "deadline exceeded"},
		{"fails", func(context.Context, chan struct{}) error { return errors.New("no verdict") }, 3, "no verdict"},
		{"is too slow", func(context.Context, chan struct{}) error { time.Sleep(every + time.Second); return nil }, 3, "took too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, hang, looks, beats := &rig.Buffer{}, make(chan struct{}), 0, 0
				w := &watch{every: every, log: slog.New(slog.NewTextHandler(log, nil)), parts: []part{
					{"the first", func(context.Context) error { return nil }},
					{"the stage", func(ctx context.Context) error {
						if looks++; looks <= 3 {
							return nil
						}
						return test.stage(ctx, hang)
					}},
				}}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					w.run(ctx, func() { beats++ })
				}()
				time.Sleep(10*every + time.Second)
				synctest.Wait()
				if beats != test.beats {
					t.Errorf("called alive %d times, want %d", beats, test.beats)
				}
				if said := log.String(); !strings.Contains(said, test.says) || test.says != "" && !strings.Contains(said, "the stage") && test.name != "is too slow" {
					t.Errorf("the log says:\n%s\nwant %q of the stage", said, test.says)
				}
				cancel()
				close(hang)
				<-ended
			})
		})
	}
}

// ready returns a daemon that is not running.
func ready(t *testing.T, yaml string) *Daemon {
	t.Helper()
	dir := t.TempDir()
	paths := sock.Paths{Config: filepath.Join(dir, "c"), State: filepath.Join(dir, "s"), Runtime: filepath.Join(dir, "r")}
	if err := paths.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(paths.Config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths.ConfigFile(), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Paths: paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler), Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

// Each part of a real daemon responds, whatever the rules say about the sample call, and leaves no
// trace. Each part hangs if what it checks hangs.
func TestSelfCheck(t *testing.T) {
	for name, yaml := range map[string]string{
		"forward": "schema: 1\n",
		"deny":    "schema: 1\ngovernance:\n  rules: [{match: \"*\", action: deny}]\n",
		"ask":     "schema: 1\ngovernance:\n  rules: [{match: \"*\", action: approve}]\n",
	} {
		d := ready(t, yaml)
		before := d.audit.Seq()
		w := &watch{parts: d.parts(), every: time.Minute, log: d.log}
		if err := w.look(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(d.queue.List(true)); n != 0 || d.audit.Seq() != before {
			t.Errorf("%s: the check filed %d questions and %d records", name, n, d.audit.Seq()-before)
		}
	}
}

func TestSelfCheckHangsWithTheReload(t *testing.T) {
	d := ready(t, "schema: 1\n")
	d.policies.reloading.Lock()
	alive, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		d.Watch(ctx, 10*time.Millisecond, func() {
			select {
			case alive <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	select {
	case <-alive:
		t.Error("called alive while a reload hangs")
	case <-time.After(200 * time.Millisecond): // much longer than it usually takes
	}
	d.policies.reloading.Unlock()
	<-alive
	cancel()
	<-ended
}
