package pipe_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
)

// When a daemon recovers a session, the content of the staging pipe is written on only if it
// is what was put there.
func TestRecoverChecksWhatIsStaged(t *testing.T) {
	const owed = "one line\nand another\n"
	for name, test := range map[string]struct {
		staged, want string
		under        bool // the daemon was killed while it staged them
		err          error
	}{
		"the rest of it":    {staged: "another\n", want: "another\n"},
		"all of it":         {staged: owed, want: owed},
		"nothing":           {},
		"other bytes":       {staged: "planted\n", err: mapping.ErrCorrupt},
		"more than is owed": {staged: owed + "more", err: mapping.ErrCorrupt},

		"all of it, while it was staged":   {staged: owed, under: true, want: owed},
		"a part, while it was staged":      {staged: owed[:4], under: true, want: owed},
		"nothing, while it was staged":     {under: true, want: owed},
		"the rest, while it was staged":    {staged: "another\n", under: true, err: mapping.ErrCorrupt},
		"too much, while it was staged":    {staged: owed + "more", under: true, err: mapping.ErrCorrupt},
		"other bytes, while it was staged": {staged: "planted\n", under: true, err: mapping.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := mapping.Create(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			cursor, err := m.Cursor(mapping.Server)
			if err != nil {
				t.Fatal(err)
			}
			cursor.SetIntent(uint64(len(owed)))
			if !test.under {
				cursor.SetStaged(uint64(len(owed)))
			}
			staging, err := pipe.NewStaging()
			if err != nil {
				t.Fatal(err)
			}
			defer staging.Close()
			if _, err := unix.Write(int(staging.File().Fd()), []byte(test.staged)); err != nil {
				t.Fatal(err)
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			wake, err := pipe.NewWaker()
			if err != nil {
				t.Fatal(err)
			}
			defer wake.Close()
			rest := func(from, to uint64) ([]byte, error) { return []byte(owed[from:to]), nil }
			writer := pipe.NewWriter(int(w.Fd()), staging, cursor, wake)
			doubtful, err := writer.Recover(rest)
			if err == nil {
				if next, _ := rest(cursor.Delivered(), uint64(len(owed))); len(next) > 0 {
					err = writer.Write(next)
				}
			}
			w.Close()
			if !errors.Is(err, test.err) || doubtful {
				t.Errorf("error %v, want %v; doubtful: %v", err, test.err, doubtful)
			}
			buf := make([]byte, 100)
			n, _ := r.Read(buf) // 0 at the end
			if got := string(buf[:n]); got != test.want {
				t.Errorf("the server reads %q, want %q", got, test.want)
			}
		})
	}
}
