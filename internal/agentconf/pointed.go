package agentconf

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// pointer is an agent that can be told, for one start, how to start its servers,
// without a word of it in its files.
type pointer interface {
	// unfaithful says why that would not do this time: the agent would start
	// something past us, or not what it starts without us. It is empty when it
	// does.
	unfaithful(Env, *Found) string
	// point works out what the agent is told. copyPath is where the copy will
	// lie, should there be one.
	point(env Env, found *Found, line Line, copyPath string) (*pointed, error)
}

// pointed is what an agent is told for one start.
type pointed struct {
	args  []string // that go right after the program's name
	name  string   // of a variable, empty for none
	value string   // of it
	copy  []byte   // of a file, nil for none
}

// mostInVariable is how long the value of a variable may be, in bytes: Linux
// takes 128 KiB, name included.
const mostInVariable = 120 << 10

// writeCopy writes a new file that only its owner can read, and syncs it.
func writeCopy(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// plain is the text of a value in JSON that any reader takes: without comments
// and trailing commas.
func plain(n edit.Node) string {
	var parts []string
	switch n.Kind() {
	case edit.Object:
		for name, value := range n.Members() {
			parts = append(parts, name.Raw()+": "+plain(value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case edit.Array:
		for _, item := range n.Items() {
			parts = append(parts, plain(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.Raw()
}

// strongest calls yield for the entries that count for their names.
func (f *Found) strongest(yield func(*Source, *Entry) bool) {
	seen := map[string]bool{}
	for _, e := range f.order {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		for _, s := range f.Sources {
			if slices.Contains(s.Entries, e) && !yield(s, e) {
				return
			}
		}
	}
}

// tooLow are those limits that have to be raised for the server at path: as the
// strongest of the files has them that has them at all, and those that none has.
func tooLow(strongestFirst []*Source, path []string, limits []limit) []limit {
	var out []limit
	for _, l := range limits {
		setting := edit.Node{}
		for _, s := range strongestFirst {
			if n := s.doc.At(path); n.Member(l.key).Exists() {
				setting = n
				break
			}
		}
		if len(raised(setting, []limit{l})) > 0 {
			out = append(out, l)
		}
	}
	return out
}
