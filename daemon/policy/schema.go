package policy

import (
	"path/filepath"
	"strings"

	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// checkSchema holds the policies to the Cedar schema that the configuration
// names, strictly. Its file is Cedar's own schema language, or JSON when the
// name ends so.
func (l *loader) checkSchema() {
	path := l.cfg.Cedar.Schema
	if path == config.SchemaGenerated {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.cfg.Path), path)
	}
	here := l.cfg.Place(&l.cfg.Cedar.Schema)
	text, err := config.ReadFile(path, maxAnyFile)
	if err != nil {
		l.report(here, config.Error, "V-013", "write generated, or the path of a Cedar schema", "the schema %s can't be read: %v", path, err)
		return
	}
	l.files = append(l.files, File{Path: path, Digest: digestOf(text), Text: l.keep(text)})
	if at := tooDeep(text); at >= 0 {
		l.report(placeAt(path, text, at), config.Error, "", "", "nested deeper than %d levels", maxNesting)
		return
	}
	var s schema.Schema
	s.SetFilename(path)
	if strings.HasSuffix(path, ".json") {
		err = s.UnmarshalJSON(text)
	} else {
		err = s.UnmarshalCedar(text)
	}
	if err != nil {
		l.report(config.Place{File: path}, config.Error, "", "", "not a valid Cedar schema: %v", err)
		return
	}
	resolved, err := s.Resolve()
	if err != nil {
		l.report(config.Place{File: path}, config.Error, "", "", "not a valid Cedar schema: %v", err)
		return
	}
	v := validate.New(resolved, validate.WithStrict())
	for _, p := range l.policies {
		if err := v.Policy(p.id, (*ast.Policy)(p.cedar.AST())); err != nil {
			l.report(p.place, config.Error, "", "", "the policy doesn't fit the schema %s: %s", filepath.Base(path), strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
}
