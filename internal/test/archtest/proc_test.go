package archtest

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// opensProc has the files outside internal/proc that name something below /proc, and why.
var opensProc = map[string]string{
	"daemon/keep/open.go":                "its own name, as others see it",
	"daemon/keep/program_linux.go":       "the path of a descriptor that a program inherits",
	"daemon/relay/pipe/staging_linux.go": "a pipe of its own, opened anew",
	"daemon/store/boot_linux.go":         "what names the boot of the system",
	"cmd/tgctl/host/host_linux.go":       "what the kernel allows between processes",

	"daemon/facts/ours.go":         "what an agent may name, which is not opened",
	"daemon/facts/secretplaces.go": "likewise",
	"daemon/facts/follow.go":       "likewise",
	"daemon/facts/places.go":       "likewise",
	"internal/phrases/phrases.go":  "likewise",

	"internal/shell/run.go":            "likewise",
	"internal/shell/effects/places.go": "likewise",
	"internal/uri/spellings.go":        "likewise",

	"internal/test/rig":   "what tests see of the programs",
	"internal/test/bench": "what is measured of the programs",
}

// TestProc wants whoever looks at a process to use internal/proc, which knows what a
// number that was given to another process shows.
func TestProc(t *testing.T) {
	used := map[string]bool{}
	for _, source := range sources(t) {
		if source.dir == "internal/proc" {
			continue
		}
		ast.Inspect(source.file, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && (text == "/proc" || strings.Contains(text, "/proc/")) {
					what = text
				}
			case *ast.SelectorExpr:
				switch n.Sel.Name {
				case "PidfdOpen", "PidfdSendSignal", "SysctlKinfoProc", "SysctlKinfoProcSlice":
					what = n.Sel.Name
				}
			}
			if what == "" {
				return true
			}
			for _, at := range []string{source.path, source.dir} {
				if opensProc[at] != "" {
					used[at] = true
					return true
				}
			}
			t.Errorf("%s names %s: use internal/proc, or say in opensProc why not", source.set.Position(n.Pos()), what)
			return true
		})
	}
	for at := range opensProc {
		if !used[at] {
			t.Errorf("opensProc has %s, which names nothing of it", at)
		}
	}
}
