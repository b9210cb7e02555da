package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestOldWords looks for words that docs/glossary.md has replaced, those in bold in its third
// column, where people read them: in the pages, and in the texts of the programs. Code in
// backquotes does not count, since records and files keep their words.
func TestOldWords(t *testing.T) {
	all := pages(t)
	old := oldWords(all["docs/glossary.md"])
	if len(old) < 10 {
		t.Fatalf("docs/glossary.md has %d old words in bold", len(old))
	}
	delete(all, "docs/glossary.md")
	any := regexp.MustCompile(`(?i)\b(` + strings.Join(old, "|") + `)\b`)
	code := regexp.MustCompile("`[^`\n]*`")
	check := func(where, text string) {
		if word := any.FindString(code.ReplaceAllString(text, "")); word != "" {
			t.Errorf("%s says %q, which docs/glossary.md replaces: %.200q", where, word, text)
		}
	}
	for path, text := range all {
		for line := range strings.Lines(text) {
			check(path, line)
		}
	}
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, "internal/test/") || s.path == "daemon/store/migrate.go" { // the schema is on disks
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					check(s.set.Position(literal.Pos()).String(), text)
				}
			}
			return true
		})
	}
}

// oldWords returns the words in bold in the third column of the tables of the glossary.
func oldWords(glossary string) []string {
	var words []string
	bold := regexp.MustCompile(`\*\*([^*]+)\*\*`)
	for line := range strings.Lines(glossary) {
		if columns := strings.Split(line, "|"); len(columns) == 5 {
			for _, found := range bold.FindAllStringSubmatch(columns[3], -1) {
				words = append(words, regexp.QuoteMeta(strings.Trim(found[1], `"`)))
			}
		}
	}
	return words
}
