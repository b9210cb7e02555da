package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// readFormat reads of the repository's configuration in which format it is. The rest of it,
// which may name programs and files, is not looked at.
func (t *Tree) readFormat() error {
	t.hash = 20
	text, err := readFile(t.common, "config", 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unsupported := ""
	parseConfig(string(text), func(key, value string) {
		value = strings.ToLower(value)
		switch key {
		case "core.worktree":
			// git writes it for submodules, whose place openLinked has checked.
			if t.common.Path() == t.Root()+"/"+dotGit {
				unsupported = key
			}
		case "core.bare":
			if value == "true" {
				unsupported = key
			}
		case "core.repositoryformatversion":
			if value != "0" && value != "1" {
				unsupported = key
			}
		case "extensions.objectformat":
			switch value {
			case "sha1":
			case "sha256":
				t.hash = 32
			default:
				unsupported = key
			}
		case "extensions.refstorage":
			if value != "files" {
				t.noRefs = fmt.Errorf("the references are in a format that is not read (%.20q)", value)
			}
		case "extensions.noop", "extensions.preciousobjects", "extensions.partialclone",
			"extensions.worktreeconfig", "extensions.relativeworktrees":
		default:
			if strings.HasPrefix(key, "extensions.") {
				unsupported = key
			}
		}
	})
	if unsupported != "" {
		return fmt.Errorf("the repository is of a kind that is not read (%.40s)", unsupported)
	}
	return nil
}

// parseConfig calls see for each variable of a configuration file that is in a section without
// a subsection, with its name in lower case. It knows as much of the syntax as git's own
// variables of the format need: what it can't read it skips.
func parseConfig(text string, see func(key, value string)) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			name, rest, ok := strings.Cut(line[1:], "]")
			if !ok {
				return
			}
			section, line = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(rest)
		}
		if cut := strings.IndexAny(line, "#;"); cut >= 0 {
			line = line[:cut]
		}
		key, value, hasValue := strings.Cut(line, "=")
		if !hasValue {
			value = "true"
		}
		if key = strings.ToLower(strings.TrimSpace(key)); key != "" && !strings.Contains(section, `"`) {
			see(section+"."+key, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
}
