package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Textfile writes metrics to a file at an interval, for the textfile collector of node_exporter.
// The file is replaced atomically and readable by everybody. It leaves out the metrics that the
// exporter has about itself under the same names. It is removed at the end, since a file that no
// daemon updates must not be read.
type Textfile struct {
	text func() ([]byte, error)
	log  *slog.Logger

	cancel context.CancelFunc
	ended  sync.WaitGroup
	wake   chan struct{} // holds a token when the target has changed

	mu      sync.Mutex // guards the fields below
	target  target
	failure error
}

type target struct {
	path     string // absolute; may be empty
	interval time.Duration
}

// NewTextfile returns a Textfile that writes nothing until Set is called. Close must be called.
func (m *Metrics) NewTextfile(log *slog.Logger) *Textfile {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Textfile{
		text: func() ([]byte, error) { return text(m.ours) },
		log:  log, cancel: cancel, wake: make(chan struct{}, 1),
	}
	t.ended.Go(func() { t.run(ctx) })
	return t
}

// Set writes the file at path now and at each interval, and removes a file at the previous path. If
// path is empty, nothing is written. Set does not block.
func (t *Textfile) Set(path string, interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.target = target{path, interval}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Failure returns why the file is not up to date, or nil if it is.
func (t *Textfile) Failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// Close removes the file.
func (t *Textfile) Close() {
	t.cancel()
	t.ended.Wait()
}

// run writes the file until ctx ends.
func (t *Textfile) run(ctx context.Context) {
	var now target
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			t.remove(now.path)
			return
		case <-t.wake:
			t.mu.Lock()
			next := t.target
			t.mu.Unlock()
			if next.path != now.path {
				t.remove(now.path)
			}
			now = next
		case <-timer.C:
		}
		if now.path == "" {
			timer.Stop()
			t.note(nil)
			continue
		}
		t.note(t.write(now.path))
		timer.Reset(now.interval)
	}
}

// note stores why the file is not up to date, and logs each change once.
func (t *Textfile) note(err error) {
	t.mu.Lock()
	before := t.failure
	t.failure = err
	t.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		t.log.Warn("the text file of metrics is not up to date", "component", "metrics", "err", err)
	case err == nil && before != nil:
		t.log.Info("the text file of metrics is written again", "component", "metrics")
	}
}

// write replaces the file at path with the current metrics. The exporter ignores files whose name
// begins with a dot or does not end in .prom.
func (t *Textfile) write(path string) error {
	content, err := t.text()
	if err != nil {
		return err
	}
	if err := replaceable(path); err != nil {
		return err
	}
	temp := temporary(path)
	// Remove a leftover of a previous daemon. Anything that can't be removed makes OpenFile fail.
	_ = os.Remove(temp)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // the exporter is another user
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error counts
		return fmt.Errorf("write the metrics: %w", err)
	}
	return nil
}

// replaceable returns an error if the file at path must not be replaced.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write the metrics: %s is not a regular file; name another one in metrics.textfile", path)
	}
	return nil
}

func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}

// remove removes a file that was written.
func (t *Textfile) remove(path string) {
	if path == "" || replaceable(path) != nil {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("remove the text file of metrics", "component", "metrics", "err", err)
	}
}
