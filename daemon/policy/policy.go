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
	reason string       // of @reason
	fleet  bool         // it is of a fleet's policy
	ask    *workflowRef // of @approval; nil if there is none

	text      []byte      // of its file
	digest    [32]byte    // of its own text, formatted
	scope     *ast.Policy // the policy without its conditions
	reading   reading
	outside   outsideReads           // reads outside of the context
	uses      members                // members of the context that it reads
	arguments []*access              // arguments that it reads
	types     map[entityTypesOf]bool // types of principal and resource that the scope covers
	clean     *sync.Map              // signatures of call types that were checked without a finding
}

// title returns the id of the policy with its place, for messages.
func (p *policy) title() string {
	if strings.Contains(p.id, p.place.String()) {
		return p.id
	}
	return fmt.Sprintf("%q (%s)", p.id, p.place)
}

// newPolicy returns a policy without an id, place and annotations.
func newPolicy(c *cedar.Policy) *policy {
	tree := (*ast.Policy)(c.AST())
	p := &policy{
		cedar: c, reading: read(tree.Conditions), clean: &sync.Map{},
		scope: &ast.Policy{Effect: tree.Effect, Principal: tree.Principal, Action: tree.Action, Resource: tree.Resource},
	}
	p.uses, p.arguments = p.reading.uses(), p.reading.arguments()
	p.types, p.outside = p.typesCovered(), p.outsideReads()
	return p
}

// toolsNamed returns the tools that the scope names, as server/tool. open is true if the scope
// covers others, too.
func (p *policy) toolsNamed() (ids []string, open bool) {
	if entity := scopeEntities(p.scope.Resource)[0]; entity.Type == typeTool {
		return []string{string(entity.ID)}, false
	}
	for _, uid := range scopeEntities(p.scope.Action) {
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

// workflowRef is a workflow in the form in which a ruling refers to it.
type workflowRef struct {
	workflow string
	timeout  time.Duration
	validity time.Duration
	redact   []string
	surfaces []string
	level    gate.Level
	natively []string // agents that may ask their own users instead
	digest   [32]byte // of all its settings
}

// workflow resolves a workflow name as config.Config.Workflow does. It may return nil.
func (l *loader) workflow(name string) *workflowRef {
	name, w := l.cfg.Workflow(name)
	if w == nil {
		return nil
	}
	a := &workflowRef{workflow: name, timeout: w.Timeout, validity: w.Validity, redact: w.RedactFields, level: levels[w.Require]}
	said := *w
	said.Place = config.Place{}
	a.digest = sha256.Sum256(fmt.Appendf(nil, "%q %#v", name, said))
	a.surfaces = words(w.Surfaces)
	if w.Destination.Type == config.DestinationLocal && l.cfg.Place(&w.Surfaces).Line == 0 {
		a.natively = l.cfg.NativeAgents()
	}
	return a
}

// levels maps the requirement of a workflow to the level of an approval.
var levels = map[config.Require]gate.Level{
	"": gate.LevelUsual, config.RequireAny: gate.LevelWatch, config.RequirePresence: gate.LevelPresence,
}

// The annotations that have a meaning. Authors may use others.
const (
	annotationID       = "id"
	annotationApproval = "approval"
	annotationReason   = "reason"
)

// policy returns a parsed policy with its annotations, or nil if it has errors.
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
	l.checkEntityTypes(p)
	if len(l.found) > errors {
		return nil
	}
	return p
}

// positionID returns the id of a policy without @id: its file and line, such as
// policies/db.cedar:12, followed by the column if the policy does not begin its line. So no two
// policies share an id.
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
		// A misspelled @approval would silently permit the call without asking.
		known := []string{annotationApproval, annotationReason, annotationID}
		if hint := didYouMean("@%s", key, known); hint != "" && len(key) > 2 {
			l.report(p.place, config.Error, "", hint, "unknown annotation @%s", key)
		}
	}
}

func (l *loader) approval(p *policy, name string) {
	if p.cedar.Effect() == cedar.Forbid {
		l.report(p.place, config.Error, "", "write a permit with @approval, or a forbid without it", "@approval is for permits; a forbid denies and never asks")
		return
	}
	if name == "" && len(l.cfg.Approval) > 1 {
		l.report(p.place, config.Error, "V-006b", "", "@approval must name one of the %d workflows", len(l.cfg.Approval))
		return
	}
	if p.ask = l.workflow(name); p.ask == nil || name == config.DefaultWorkflow && len(l.cfg.Approval) > 0 && l.cfg.Approval[name] == nil {
		l.report(p.place, config.Error, "V-006", didYouMean("%q", name, sortedKeys(l.cfg.Approval)), "unknown workflow %q", name)
	}
}

// didYouMean returns a hint for a word that resembles one of known, in the given format, or "".
func didYouMean(format, word string, known []string) string {
	if near := config.Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean "+format+"?", near)
	}
	return ""
}
