package worktree

import "slices"

// Kind says what is known of a file.
type Kind int

// The kinds of files. Each file is of one.
const (
	Committed Kind = iota // with this content in the last commit
	Staged                // with this content in the index only, in no commit
	Changed               // git knows the file, but not this content
	Untracked             // git does not know the file
	Ignored               // git is told not to know the file; most often it can be made again
	Nested                // in a repository of its own below the tree, which is not looked into
	Internal              // of the repository itself, below .git
	Special               // neither a file nor a symbolic link, such as a socket
	Unclear               // see Report.Gaps
	kinds
)

var kindTexts = [kinds]string{"committed", "staged", "changed", "untracked", "ignored", "nested", "internal", "special", "unclear"}

func (k Kind) String() string { return kindTexts[k] }

// A Count is how many files there are of a kind.
type Count struct {
	Files int
	Bytes int64
	Names []string // the first ones, up to Limits.Names, below the tree
}

// A Report says what is in some paths. All names are as the file system has them, so they must be
// made safe before they are shown.
type Report struct {
	Kinds   [kinds]Count
	Folders int
	// Folders that are repositories of their own, up to Limits.Names.
	Repositories []string
	// The repository of the tree is itself in the paths, with all its commits.
	Repository bool
	// Paths that were not looked at: outside of the tree, or through a symbolic link.
	Elsewhere []string
	// Paths at which there is nothing.
	Missing []string
	// Why the figures are lower bounds, and files Unclear. Empty if all was found out.
	Gaps []string
}

// Files returns how many files there are of some kinds, or of all if none is given.
func (r *Report) Files(of ...Kind) int {
	total := 0
	for k, c := range r.Kinds {
		if len(of) == 0 || slices.Contains(of, Kind(k)) {
			total += c.Files
		}
	}
	return total
}

// Bytes returns how large the files of some kinds are together, or those of all.
func (r *Report) Bytes(of ...Kind) int64 {
	total := int64(0)
	for k, c := range r.Kinds {
		if len(of) == 0 || slices.Contains(of, Kind(k)) {
			total += c.Bytes
		}
	}
	return total
}

// InNoCommit returns how many files git could not bring back: those that it does not have, and
// that it was not told to ignore.
func (r *Report) InNoCommit() int { return r.Files(Staged, Changed, Untracked) }

// Complete reports whether all was found out. Otherwise there are at least as many files.
func (r *Report) Complete() bool { return len(r.Gaps) == 0 }

func (r *Report) count(k Kind, name string, bytes int64, names int) {
	c := &r.Kinds[k]
	c.Files++
	c.Bytes += bytes
	if len(c.Names) < names {
		c.Names = append(c.Names, name)
	}
}

const maxGaps = 10

// miss records why something was not found out.
func (r *Report) miss(why string) {
	if len(r.Gaps) < maxGaps && !slices.Contains(r.Gaps, why) {
		r.Gaps = append(r.Gaps, why)
	}
}
