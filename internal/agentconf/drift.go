package agentconf

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Drift is a server that the agent starts past us although its configuration is
// rewritten.
type Drift struct {
	ID   string // the name that the agent knows it by
	Path string // of the file, as the agent knows it
	How  How
}

// How a server came to be started past us.
type How string

const (
	Added   How = "added"   // it came into the configuration
	Changed How = "changed" // it was rewritten, and names the shim no more
)

// Drift compares the configuration with what was made of it. An error means that
// it can't be told just now: somebody may be writing.
func (p *Plan) Drift() ([]Drift, error) {
	found, err := p.find()
	if err != nil {
		return nil, err
	}
	var out []Drift
	for s, e := range each(found.Sources) {
		switch n := s.doc.At(e.Path); {
		case p.starts(n):
		case p.rewrote(s.file.path, e.Path):
			out = append(out, Drift{e.ID, s.Path, Changed})
		case e.fixed != "" && !p.shownFixed(s, e):
			out = append(out, Drift{e.ID, s.Path, Added})
		case e.Ungoverned == "" && (e.Off == Starts || e.Off == Pending):
			out = append(out, Drift{e.ID, s.Path, Added})
		}
	}
	return out, nil
}

// shownFixed reports whether an entry that can't be changed is one of those that a
// person was warned of.
func (p *Plan) shownFixed(now *Source, e *Entry) bool {
	for s, was := range each(p.found) {
		if s.file.path == now.file.path && slices.Equal(was.Path, e.Path) && was.fixed != "" {
			return edit.Identical(s.doc.At(was.Path), now.doc.At(e.Path))
		}
	}
	return false
}

// Stamp is a short text that changes whenever a file of the agent does: with it,
// looking often costs next to nothing.
func (p *Plan) Stamp() string { return Stamp(slices.Concat(p.agent.Files(p.env), p.Paths())) }

// Stamp is a short text that changes whenever one of the files at paths does.
func Stamp(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			b.WriteString("-\n")
			continue
		}
		fmt.Fprintln(&b, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	}
	return b.String()
}

// starts reports whether an entry holds a whole line of ours.
func (p *Plan) starts(n edit.Node) bool {
	s := formed(n)
	words, _ := shimWords(s.behind())
	return words > 0 && (&taker{shim: p.shim}).starts(s)
}

func (p *Plan) rewrote(target string, path []string) bool {
	f := p.fileAt(target)
	return f != nil && slices.ContainsFunc(f.before, func(w entryWas) bool { return slices.Equal(w.Path, path) })
}

// fileAt returns the plan's file at a path whose links are resolved, nil when it
// has none.
func (p *Plan) fileAt(target string) *planned {
	for _, f := range p.files {
		if f.file.path == target {
			return f
		}
	}
	return nil
}
