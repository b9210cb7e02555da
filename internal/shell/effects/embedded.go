package effects

import (
	"regexp"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// Commands, and names of files, inside of what sed, editors, clients of databases and programs
// that transfer files are told.

// embedded finds what such a text has a program do: each group is a command line, or a file, as
// what says.
type embedded struct {
	what    byte // '$' a command line, or the role of a path
	pattern *regexp.Regexp
}

var sedTexts = []embedded{
	{'$', regexp.MustCompile(`(?m)(?:^|[;{}/0-9$IM])\s*!?\s*e\s+([^\n]+)`)},
	{'$', regexp.MustCompile(`(?:^|[^\w])s/(?:[^/\\\n]|\\.)*/((?:[^/\\\n]|\\.)*)/[gpimIM0-9]*e`)},
	{'$', regexp.MustCompile(`(?:^|[^\w])s\|(?:[^|\\\n]|\\.)*\|((?:[^|\\\n]|\\.)*)\|[gpimIM0-9]*e`)},
	{'$', regexp.MustCompile(`(?:^|[^\w])s([#,@!%:_~])[^\n]*[#,@!%:_~]([^\n]*)[#,@!%:_~][gpimIM0-9]*e`)},
	{write, regexp.MustCompile(`(?m)(?:^|[;{}/0-9$IM|#,@gp])\s*!?\s*[wW]\s+([^\n;}]+)`)},
}

var editorTexts = []embedded{
	{'$', regexp.MustCompile(`(?m)(?:^|[\s|:"'%,$0-9])!\s?([^|"'\n]+)`)},
	{'$', regexp.MustCompile(`\b(?:system|systemlist|os\.execute|io\.popen|jobstart|termopen)\s*\(\s*` + str)},
	{'$', regexp.MustCompile(`\((?:shell-command|shell-command-to-string|call-process-shell-command|async-shell-command)\s+` + str)},
	{erase, regexp.MustCompile(`\b(?:delete|os\.remove)\s*\(\s*` + str)},
	{write, regexp.MustCompile(`(?m)(?:^|[|:\s])(?:w|wr|write|wq|sav|saveas|up|update)!?\s+([^\s|!"']+)`)},
}

var databaseTexts = []embedded{
	{'$', regexp.MustCompile(`(?i)\\!\s*([^\n]+)`)},
	{'$', regexp.MustCompile(`(?i)\bprogram\s+'((?:[^']|'')*)'`)},
	{'$', regexp.MustCompile(`(?i)\\[a-z]+\s*\|\s*([^\n]+)`)},
	{'$', regexp.MustCompile(`(?im)^\s*\.?(?:shell|she|sh|system|sys\w*)\s+([^\n]+)`)},
	{'$', regexp.MustCompile(`(?im)^\s*\.(?:o\w*|on\w*|im\w*)\s+["']?\|\s*([^\n"']+)`)},
}

var transferTexts = []embedded{
	{upload, regexp.MustCompile(`(?m)(?:^|[\s;])(?:m?put|reput|append)\s+(?:-\w+\s+)*([^\s;]+)`)},
	{upload, regexp.MustCompile(`(?:^|[\s;])mirror\s+(?:-\w+\s+)*(?:-R|--reverse)\s+(?:-\w+\s+)*([^\s;]+)`)},
	{'$', regexp.MustCompile(`(?m)(?:^|;)\s*!\s*([^\n;]+)`)},
}

const maxSearched = 2 << 20 // bytes of such texts in one line

// embeds adds what a text has a program do.
func (k *call) embeds(of []embedded, text string) {
	if k.searched += len(text); k.searched > maxSearched {
		k.effects.Truncated = true
		return
	}
	for _, e := range of {
		for _, m := range e.pattern.FindAllStringSubmatch(text, mostCalls) {
			for _, found := range m[1:] {
				found = strings.TrimSpace(found)
				switch {
				case found == "":
				case e.what == '$':
					k.codeLine(k.index, found)
				default:
					k.role(e.what, shell.NewWord(found))
				}
			}
		}
	}
}

// transfersTexts adds what a client that is told by words or on its input sends.
func (k *call) transfersTexts() {
	for _, text := range k.texts() {
		k.embeds(transferTexts, text)
	}
}
