package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// soon fails if f does not return soon: opening a named pipe can block forever.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it waits for the other end of a pipe")
	}
}

// planted are replacements that someone with write access to the log's folder may put in
// the place of a file. Those that lead anywhere lead to elsewhere.
var planted = map[string]func(path, elsewhere string) error{
	"link":   func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
	"pipe":   func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	"folder": func(path, _ string) error { return os.Mkdir(path, 0o700) },
}

func eachPlanted(t *testing.T, test func(t *testing.T, plant func(path string))) {
	for what, put := range planted {
		t.Run(what, func(t *testing.T) {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			soon(t, func() {
				test(t, func(path string) {
					if err := errors.Join(os.RemoveAll(path), put(path, elsewhere)); err != nil {
						t.Error(err)
					}
				})
			})
			if content, err := os.ReadFile(elsewhere); err != nil || len(content) > 0 {
				t.Errorf("written elsewhere: %q, %v", content, err)
			}
		})
	}
}

// If a segment or the key is not a regular file, the daemon does not start.
func TestOnlyRegularFilesAreTakenUp(t *testing.T) {
	for _, name := range []string{record.SegmentName(1), keyFile} {
		t.Run(name, func(t *testing.T) {
			eachPlanted(t, func(t *testing.T, plant func(string)) {
				dir := t.TempDir()
				l := open(t, dir, Options{})
				put(t, l, "x", "")
				closeLog(t, l)
				plant(filepath.Join(dir, name))
				if l, err := Open(dir, Options{}); err == nil {
					closeLog(t, l)
					t.Error("it is taken up")
				}
			})
		})
	}
}

// The next segment is not begun in an existing file: records are refused meanwhile, and
// the log continues when the file is gone.
func TestTheNextSegmentIsANewFile(t *testing.T) {
	eachPlanted(t, func(t *testing.T, plant func(string)) {
		dir := t.TempDir()
		now := time.Now()
		l := open(t, dir, Options{SegmentSize: 1, Now: func() time.Time { return now }})
		next := filepath.Join(dir, record.SegmentName(2))
		plant(next)
		r := &record.Record{Kind: record.KindCall, Tool: "x"}
		if err := l.Record(context.Background(), r, nil, nil); err == nil {
			t.Error("recorded")
		}
		if err := os.Remove(next); err != nil {
			t.Error(err)
		}
		now = now.Add(time.Minute)
		put(t, l, "after", "")
		if verified(t, dir).Segments != 2 {
			t.Error("the log does not go on in its second segment")
		}
	})
}

// Reading reports an old segment that is no longer a regular file, and does not skip it.
func TestReadOfASegmentThatIsNone(t *testing.T) {
	eachPlanted(t, func(t *testing.T, plant func(string)) {
		dir := t.TempDir()
		l := open(t, dir, Options{SegmentSize: 1})
		put(t, l, "x", "")
		put(t, l, "y", "")
		plant(l.path(1))
		for _, q := range []Query{{}, {Last: 10}, {Tool: "x"}} {
			err := l.Read(context.Background(), q, func(uint64, []byte, []byte) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "regular file") {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}

// A head file that is not a regular file is not followed, and the log reports it.
func TestAHeadThatIsNoFile(t *testing.T) {
	eachPlanted(t, func(t *testing.T, plant func(string)) {
		dir := t.TempDir()
		l := open(t, dir, Options{})
		put(t, l, "x", "")
		closeLog(t, l)
		plant(filepath.Join(dir, record.HeadFile))
		l = open(t, dir, Options{})
		put(t, l, "y", "")
		if gap := records(t, l, Query{Kind: record.KindGap}); len(gap) != 1 || !strings.Contains(gap[0].Reason, "the head file can't be read") {
			t.Errorf("got %+v", gap)
		}
	})
}

// The same is true of the file elsewhere to which heads are appended.
func TestHeadsAreToldToAFile(t *testing.T) {
	eachPlanted(t, func(t *testing.T, plant func(string)) {
		heads := filepath.Join(t.TempDir(), "heads")
		plant(heads)
		if err := appendSynced(heads, record.Head{}.Line()); err == nil {
			t.Error("told")
		}
	})
}

// The log reports a head file that does not match it.
func TestAHeadThatDiffers(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(head record.Head, path string) error
		want   string // empty: no fault
	}{
		{"as it was", func(record.Head, string) error { return nil }, ""},
		{"another record", func(h record.Head, path string) error {
			h.Sum = strings.Repeat("0", len(h.Sum))
			return os.WriteFile(path, h.Line(), 0o600)
		}, "record 2 is not the one that the head file names"},
		{"another log", func(h record.Head, path string) error {
			h.Log = "OTHER"
			return os.WriteFile(path, h.Line(), 0o600)
		}, `the head file names another log, "OTHER"`},
		{"a later record", func(h record.Head, path string) error {
			h.Seq++
			return os.WriteFile(path, h.Line(), 0o600)
		}, "records 3 to 3, which the head file names, are missing"},
		{"gone", func(_ record.Head, path string) error { return os.Remove(path) }, "the head file is missing"},
		{"no head", func(_ record.Head, path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, "can't be read"},
		{"more than a head", func(h record.Head, path string) error {
			return os.WriteFile(path, append(h.Line(), '\n'), 0o600)
		}, "can't be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, Options{})
			put(t, l, "x", "")
			closeLog(t, l)
			head, err := record.ReadHead(dir)
			if err != nil || head == nil || head.Seq != 2 {
				t.Fatalf("the head is %+v, %v", head, err)
			}
			if err := test.change(*head, filepath.Join(dir, record.HeadFile)); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir, Options{})
			put(t, l, "y", "")
			gap := records(t, l, Query{Kind: record.KindGap})
			if test.want == "" {
				if len(gap) > 0 {
					t.Errorf("got %+v", gap)
				}
				return
			}
			if len(gap) != 1 || !strings.Contains(gap[0].Reason, test.want) {
				t.Errorf("got %+v, want %q", gap, test.want)
			}
		})
	}
}

// New files in the log's folder are synced before anything depends on them; if that
// fails, nothing does.
func TestTheFolderIsSynced(t *testing.T) {
	dir := t.TempDir()
	var synced [][]string // content of the folder at each sync, with sizes
	var fails error
	start := func() (*Log, error) {
		l := newLog(dir, Options{SegmentSize: 1})
		l.foldersync = func(f *os.File) error {
			if f.Name() != dir {
				t.Errorf("synced %s", f.Name())
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				return err
			}
			var names []string
			for _, e := range entries {
				info, err := e.Info()
				if err != nil {
					return err
				}
				names = append(names, fmt.Sprint(e.Name(), " ", info.Size() > 0))
			}
			synced = append(synced, names)
			return fails
		}
		return l.open()
	}
	has := func(name string) bool {
		return slices.ContainsFunc(synced, func(names []string) bool { return slices.Contains(names, name+" true") })
	}
	l, err := start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { closeLog(t, l) }()
	if !has(keyFile) || !has(record.SegmentName(1)) {
		t.Errorf("of a new log: synced %q", synced)
	}
	put(t, l, "x", "")
	if !has(record.SegmentName(2)) {
		t.Errorf("of the next segment: synced %q", synced)
	}
	closeLog(t, l)

	// The torn bytes are on stable storage before they are cut off.
	path := filepath.Join(dir, record.SegmentName(2))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := append(bytes.Clone(content), "torn"...)
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("the disk is broken")
	if l, err := start(); !errors.Is(err, fails) {
		closeLog(t, l)
		t.Errorf("taken up: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, torn) {
		t.Errorf("cut off before its copy was safe: %q, %v", now, err)
	}
	fails = nil
	if l, err = start(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
		t.Errorf("not cut off: %q, %v", now, err)
	}

	// So is a new key, since what it has matched is recorded.
	closeLog(t, l)
	if err := os.Remove(filepath.Join(dir, keyFile)); err != nil {
		t.Fatal(err)
	}
	synced = nil
	if l, err = start(); err != nil {
		t.Fatal(err)
	}
	if !has(keyFile) {
		t.Errorf("of a new key: synced %q", synced)
	}

	// A segment that may not survive a crash takes no record.
	closeLog(t, l)
	if l, err = start(); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("the disk is broken")
	if err := l.Record(context.Background(), &record.Record{Kind: record.KindCall, Tool: "y"}, nil, nil); !errors.Is(err, fails) {
		t.Errorf("recorded: %v", err)
	}
	fails = nil
}
