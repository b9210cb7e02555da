package effects

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// A PatchFile is what a patch does to one file.
type PatchFile struct {
	Op   PatchOp
	Name string // as the patch has it
	To   string // the new name, if an update moves the file
	Body string // the lines of the file's part, as written
}

// PatchOp is what happens to a file.
type PatchOp int

// The operations.
const (
	PatchAdd PatchOp = iota
	PatchUpdate
	PatchDelete
)

const (
	patchBegin  = "*** Begin Patch"
	patchEnd    = "*** End Patch"
	patchAdd    = "*** Add File: "
	patchUpdate = "*** Update File: "
	patchDelete = "*** Delete File: "
	patchMove   = "*** Move to: "
	patchEOF    = "*** End of File"
)

// ErrNoPatch is the error for a text that does not begin as a patch does.
var ErrNoPatch = errors.New("no patch: it has to begin with " + patchBegin)

// ParsePatch reads the envelope of apply_patch, which edits several files. It
// is strict: whoever applies the patch may find a file where a lenient reader
// sees only text.
func ParsePatch(text string) ([]PatchFile, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 || strings.TrimSpace(lines[0]) != patchBegin {
		return nil, ErrNoPatch
	}
	if len(lines) < 2 || strings.TrimSpace(lines[len(lines)-1]) != patchEnd {
		return nil, fmt.Errorf("read patch: it has to end with %s", patchEnd)
	}
	var files []PatchFile
	var body strings.Builder
	end := func() {
		if len(files) > 0 {
			files[len(files)-1].Body = body.String()
		}
		body.Reset()
	}
	for i, line := range lines[1 : len(lines)-1] {
		file, isHeader, err := patchHeader(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read patch: line %d: %w", i+2, err)
		case isHeader:
			end()
			files = append(files, file)
			continue
		case len(files) == 0:
			return nil, fmt.Errorf("read patch: line %d is part of no file", i+2)
		}
		isMove, err := files[len(files)-1].line(line, body.Len() == 0)
		if err != nil {
			return nil, fmt.Errorf("read patch: line %d: %w", i+2, err)
		}
		if !isMove {
			body.WriteString(line)
			body.WriteByte('\n')
		}
	}
	end()
	if len(files) == 0 {
		return nil, errors.New("read patch: it names no file")
	}
	return files, nil
}

// patchHeader returns the file that a line begins.
func patchHeader(line string) (PatchFile, bool, error) {
	trimmed := strings.TrimSpace(line)
	for op, prefix := range []string{patchAdd, patchUpdate, patchDelete} {
		name, ok := strings.CutPrefix(trimmed, prefix)
		if !ok {
			continue
		}
		if line[0] != '*' {
			return PatchFile{}, false, errors.New("what names a file is indented")
		}
		name = strings.TrimSpace(name)
		if name == "" || strings.ContainsRune(name, 0) {
			return PatchFile{}, false, errors.New("a file without a name")
		}
		return PatchFile{Op: PatchOp(op), Name: name}, true, nil
	}
	return PatchFile{}, false, nil
}

// line checks a line of a file's part, and reports whether it is a move.
func (f *PatchFile) line(line string, first bool) (isMove bool, err error) {
	trimmed := strings.TrimSpace(line)
	if name, ok := strings.CutPrefix(trimmed, patchMove); ok {
		if f.Op != PatchUpdate || !first || f.To != "" || line[0] != '*' {
			return false, errors.New("a move has to follow the name of a file that is updated")
		}
		if f.To = strings.TrimSpace(name); f.To == "" {
			return false, errors.New("a move without a name")
		}
		return true, nil
	}
	if strings.HasPrefix(line, "***") && trimmed != patchEOF {
		return false, fmt.Errorf("%q is not known", trimmed)
	}
	switch f.Op {
	case PatchDelete:
		if trimmed != "" {
			return false, errors.New("a file that is deleted has no lines")
		}
	case PatchAdd:
		if trimmed != "" && !strings.HasPrefix(line, "+") {
			return false, errors.New("the lines of a new file begin with +")
		}
	case PatchUpdate:
		if line != "" && !strings.ContainsRune(" +-@", rune(line[0])) && trimmed != patchEOF {
			return false, errors.New("a line of an update begins with a space, +, - or @@")
		}
	}
	return false, nil
}

// applyPatch adds the files of a patch that the shell gives to apply_patch.
func (k *call) applyPatch() {
	words := k.cmd.Args
	if k.cmd.Input != nil {
		words = append(slices.Clip(words), *k.cmd.Input)
	}
	for _, w := range words {
		text, known := w.Literal()
		if !known {
			continue
		}
		patched, err := ParsePatch(text)
		if err != nil {
			continue
		}
		for _, f := range patched {
			switch {
			case f.Op == PatchDelete:
				k.delete(k.index, shell.NewWord(f.Name))
			case f.To != "":
				k.delete(k.index, shell.NewWord(f.Name))
				k.write(k.index, shell.NewWord(f.To))
			default:
				k.write(k.index, shell.NewWord(f.Name))
			}
		}
	}
}
