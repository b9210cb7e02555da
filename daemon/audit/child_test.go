package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// parts are the functions that the test binary runs as a child process: they must not be
// run in the process that runs the other tests.
var parts = map[string]func(dir string) error{
	"write until killed": writeUntilKilled,
	"file size limit":    underFileSizeLimit,
}

func TestMain(m *testing.M) {
	play, ok := parts[os.Getenv("AUDIT_TEST_CHILD")]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(t *testing.T, part, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), "AUDIT_TEST_CHILD="+part)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeUntilKilled prints the seq of each record after Record has returned.
func writeUntilKilled(dir string) error {
	l, err := Open(dir, Options{SegmentSize: 50_000, Values: config.ValuesFull})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				r := &record.Record{Kind: record.KindCall, Tool: fmt.Sprint(w, " ", i)}
				values := []byte(`{"x":"` + strings.Repeat("y", i%3000) + `"}`)
				if err := l.Record(context.Background(), r, values, nil); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				// One write, so that the reader gets complete lines or none.
				if _, err := os.Stdout.WriteString(strconv.FormatUint(r.Seq, 10) + "\n"); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return nil
}

// Whenever a daemon dies, every record that was returned is in the log, the log verifies,
// and the next daemon continues it.
func TestNoRecordIsLostWithTheProcess(t *testing.T) {
	dir := t.TempDir()
	last := uint64(0)
	for round := range 8 {
		cmd := child(t, "write until killed", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, until := bufio.NewScanner(out), last+uint64(20+97*round)
		for killed := false; lines.Scan(); {
			seq, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				t.Error(err)
			}
			last = max(last, seq)
			if last > until && !killed {
				killed = true
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
		report := verified(t, dir)
		if report.Last.Seq < last {
			t.Fatalf("record %d was returned, and the log ends at %d", last, report.Last.Seq)
		}
		last = report.Last.Seq
	}
	// A write under way may have been cut in the middle; then there is a gap record, and
	// no other fault.
	l := open(t, dir, Options{})
	for _, gap := range records(t, l, Query{Kind: record.KindGap}) {
		if !strings.Contains(gap.Reason, "were an incomplete record and are now in torn-") {
			t.Errorf("gap: %s", gap.Reason)
		}
	}
	if report := verified(t, dir); report.Segments < 2 {
		t.Errorf("verified %+v", report)
	}
}

// steps writes a log until the disk is full, and then continues it. room(false) fills the
// disk, room(true) frees space. With a small segmentSize, the start of a segment fails.
func steps(dir string, segmentSize int64, room func(bool) error) error {
	now := time.Now()
	var said bytes.Buffer
	l, err := Open(dir, Options{
		Values: config.ValuesFull, SegmentSize: segmentSize,
		Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	if err != nil {
		return err
	}
	put := func(tool string, size int) error {
		values := []byte(`{"x":"` + strings.Repeat("y", size) + `"}`)
		return l.Record(context.Background(), &record.Record{Kind: record.KindCall, Tool: tool}, values, nil)
	}
	if err := put("before", 10); err != nil {
		return err
	}
	if err := room(false); err != nil {
		return err
	}
	first := put("too large", 1<<20)
	if !errors.Is(first, gate.ErrUnrecorded) || !strings.Contains(first.Error(), "make room for "+dir) {
		return fmt.Errorf("on a full disk: %v", first)
	}
	for range 100 {
		if again := put("small", 1); again == nil || again.Error() != first.Error() || l.Failure() != again {
			return fmt.Errorf("later: %v, want %v", again, first)
		}
	}
	now = now.Add(time.Second)
	if again := put("too large still", 1<<20); again == nil || again.Error() != first.Error() {
		return fmt.Errorf("tried again: %v, want %v", again, first)
	}
	if err := room(true); err != nil {
		return err
	}
	now = now.Add(time.Second)
	if err := put("after", 1<<20); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if err := errors.Join(l.Failure(), l.Close()); err != nil {
		return err
	}
	if errs := strings.Count(said.String(), "level=ERROR"); errs != 1 {
		return fmt.Errorf("said %d times:\n%s", errs, said.String())
	}
	return gapped(dir, "102 records are missing")
}

// gapped checks that a log verifies and reports one gap.
func gapped(dir, want string) error {
	reason := ""
	report, err := record.Verify([]string{dir}, record.VerifyOptions{Each: func(_ uint64, e record.Entry) error {
		r, err := record.Parse(e.Line)
		if r.Kind == record.KindGap {
			reason = r.Reason
		}
		return err
	}})
	switch {
	case err != nil:
		return err
	case report.Bad != nil:
		return report.Bad
	case report.Gaps != 1 || !strings.Contains(reason, want):
		return fmt.Errorf("%d gaps: %s", report.Gaps, reason)
	}
	return nil
}

func underFileSizeLimit(dir string) error {
	return steps(dir, 0, func(room bool) error {
		limit := unix.Rlimit{Cur: 64 << 10, Max: unix.RLIM_INFINITY}
		if room {
			limit.Cur = unix.RLIM_INFINITY
		}
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
	})
}

func TestAFileThatMayNotGrow(t *testing.T) {
	if err := child(t, "file size limit", t.TempDir()).Run(); err != nil {
		t.Error(err)
	}
}

func TestAFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(filepath.Join(file, "audit"), Options{}); err == nil {
		closeLog(t, l)
		t.Error("opened a log below a file")
	}
}
