package facts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// The names of facts are the words of rules, and the table of the page has a row for each.
func TestNamesOfFacts(t *testing.T) {
	words := slices.Sorted(slices.Values(config.Facts()))
	file, err := parser.ParseFile(token.NewFileSet(), "../gate/fact.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Fact") {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
			if said := "fact" + strings.ReplaceAll(name, "-", ""); !strings.EqualFold(spec.Names[0].Name, said) {
				t.Errorf("the constant %s is %q", spec.Names[0].Name, name)
			}
		}
		return true
	})
	if slices.Sort(names); !slices.Equal(names, words) {
		t.Errorf("the constants of daemon/gate are %q, the words of config.Fact %q", names, words)
	}
	_, table, _ := strings.Cut(page(t, "facts.md"), "| fact | true when |")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []string
	for row := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(row, "|"); len(cells) > 1 {
			listed = append(listed, quotedWords(cells[1])...)
		}
	}
	if slices.Sort(listed); !slices.Equal(listed, words) {
		t.Errorf("docs/facts.md lists %q, the words of config.Fact are %q", listed, words)
	}
}

// docs/approvals.md lists the facts of high risk.
func TestPageListsHighRisk(t *testing.T) {
	_, after, found := strings.Cut(page(t, "approvals.md"), "for calls of high risk: ")
	line, _, _ := strings.Cut(after, "\n")
	if got := quotedWords(line); !found || !slices.Equal(got, gate.HighRisk) {
		t.Errorf("docs/approvals.md says %q, gate.HighRisk is %q", got, gate.HighRisk)
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var quotedWord = regexp.MustCompile("`([a-z-]+)`")

func quotedWords(text string) (words []string) {
	for _, m := range quotedWord.FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}
