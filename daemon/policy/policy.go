package policy

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// policy is one Cedar policy of a Set.
type policy struct {
	id     string
	place  config.Place
	order  int // by file and position
	cedar  *cedar.Policy
	reason string  // of @reason
	ask    *asking // of @approval, for a permit; nil for none

	scope     *ast.Policy // it without its conditions
	reading   reading
	uses      members                // of the context
	arguments []*access              // what it reads of the arguments
	text      []byte                 // of the file it stands in
	digest    [32]byte               // over what it says
	types     map[entityTypesOf]bool // that the scope covers
	clean     *sync.Map              // the signatures of call types in which nothing is wrong with it
}

// named names the policy to a person, with its place.
func (p *policy) named() string {
	if strings.Contains(p.id, p.place.String()) {
		return p.id
	}
	return fmt.Sprintf("%q (%s)", p.id, p.place)
}

// newPolicy is a policy of which nothing is known but what Cedar parsed.
func newPolicy(c *cedar.Policy) *policy {
	tree := (*ast.Policy)(c.AST())
	p := &policy{
		cedar: c, reading: read(tree.Conditions), clean: &sync.Map{},
		scope: &ast.Policy{Effect: tree.Effect, Principal: tree.Principal, Action: tree.Action, Resource: tree.Resource},
	}
	p.uses, p.arguments = p.reading.uses(), p.reading.arguments()
	p.types = p.typesCovered()
	return p
}

// toolsNamed lists the tools that the scope names, as server/tool; open is true
// when it covers others too.
func (p *policy) toolsNamed() (ids []string, open bool) {
	if entity := named(p.scope.Resource)[0]; entity.Type == typeTool {
		return []string{string(entity.ID)}, false
	}
	for _, uid := range named(p.scope.Action) {
		switch {
		case uid == (cedar.EntityUID{}), uid == actionCall, uid == actionTools:
			open = true
		case !isMethod(string(uid.ID)):
			ids = append(ids, string(uid.ID))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), open
}

// asking is a workflow as a Ruling names it.
type asking struct {
	workflow string
	timeout  time.Duration
	validity time.Duration
	redact   []string
	surfaces []string
	level    gate.Level
	digest   [32]byte // over all that the configuration says of it
}

// asking returns the workflow of this name, as config.Config.Workflow does.
func (l *loader) asking(name string) *asking {
	name, w := l.cfg.Workflow(name)
	if w == nil {
		return nil
	}
	a := &asking{workflow: name, timeout: w.Timeout, validity: w.Validity, redact: w.RedactFields, level: levels[w.Require]}
	said := *w
	said.Place = config.Place{}
	a.digest = sha256.Sum256(fmt.Appendf(nil, "%q %#v", name, said))
	for _, s := range w.Surfaces {
		a.surfaces = append(a.surfaces, string(s))
	}
	return a
}

// levels is what a yes has to show, by what a workflow requires.
var levels = map[config.Require]gate.Level{
	"": gate.LevelUsual, config.RequireAny: gate.LevelWatch, config.RequirePresence: gate.LevelPresence,
}

// The annotations that mean something here. Others are the writer's own.
const (
	annotationID       = "id"
	annotationApproval = "approval"
	annotationReason   = "reason"
)

// policy checks one parsed policy, nil when it can't be used.
func (l *loader) policy(path string, text []byte, c *cedar.Policy) *policy {
	at := c.Position()
	p := newPolicy(c)
	p.place, p.text = config.Place{File: path, Line: at.Line, Column: at.Column}, text
	p.digest = sha256.Sum256(c.MarshalCedar())
	errors := len(l.found)
	p.id = l.positionID(p.place)
	for key, value := range c.Annotations() {
		l.annotation(p, string(key), string(value))
	}
	l.checkNames(p)
	if len(l.found) > errors {
		return nil
	}
	return p
}

// positionID names a policy without @id by file and position, as
// policies/db.cedar:12. The column is told where the policy doesn't begin its
// line, so that no two policies share an id.
func (l *loader) positionID(p config.Place) string {
	file := p.File
	if rel, err := filepath.Rel(filepath.Dir(l.cfg.Path), file); err == nil && filepath.IsLocal(rel) {
		file = filepath.ToSlash(rel)
	}
	if p.Column > 1 {
		return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
	}
	return fmt.Sprintf("%s:%d", file, p.Line)
}

func (l *loader) annotation(p *policy, key, value string) {
	switch key {
	case annotationID:
		if value == "" || len(value) > 128 || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			l.report(p.place, config.Error, "", "", "@id(%q) must be 1 to 128 visible characters", value)
			return
		}
		p.id = value
	case annotationReason:
		if len(value) > 1024 || strings.ContainsFunc(value, unicode.IsControl) {
			l.report(p.place, config.Error, "", "", "@reason must be one line of at most 1024 bytes")
			return
		}
		p.reason = value
	case annotationApproval:
		l.approval(p, value)
	default:
		// A slip here would turn "ask" into "permit" without a word.
		known := []string{annotationApproval, annotationReason, annotationID}
		if near := config.Nearest(key, known); near != "" && len(key) > 2 {
			l.report(p.place, config.Error, "", fmt.Sprintf("did you mean @%s?", near), "the annotation @%s means nothing here", key)
		}
	}
}

func (l *loader) approval(p *policy, name string) {
	if p.cedar.Effect() == cedar.Forbid {
		l.report(p.place, config.Error, "", "write a permit with @approval, and a forbid without", "@approval is for permits; a forbid refuses, it doesn't ask")
		return
	}
	if name == "" && len(l.cfg.Approval) > 1 {
		l.report(p.place, config.Error, "V-006b", "", "@approval names no workflow, and there are %d", len(l.cfg.Approval))
		return
	}
	if p.ask = l.asking(name); p.ask == nil || name == config.DefaultWorkflow && len(l.cfg.Approval) > 0 && l.cfg.Approval[name] == nil {
		l.report(p.place, config.Error, "V-006", l.meantWorkflow(name), "there is no workflow %q", name)
	}
}

func (l *loader) meantWorkflow(name string) string {
	var known []string
	for k := range l.cfg.Approval {
		known = append(known, k)
	}
	slices.Sort(known)
	if near := config.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}
