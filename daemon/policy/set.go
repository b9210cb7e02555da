package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Set is one configuration with its policies. What it decides never changes, and
// it is safe for concurrent use.
type Set struct {
	cfg      *config.Config
	rules    []rule
	defaults rule      // for what agents ask of servers
	forAsks  rule      // for sampling and url elicitation
	policies []*policy // by file and position
	byID     map[string]*policy
	index    index
	redact   []string // redact_fields of all workflows
	files    []File
	paths    []string // of files
	digest   string
	known    func(*gate.Call) Known
	seen     []string // servers; nil where nobody looked
	shows    bool     // nothing is hidden; only to see what would be then
	tools    Tools
	standing string
	checks   *checkedTools
}

var _ gate.Policy = (*Set)(nil)

// File is a file that a Set was built from.
type File struct {
	Path   string // absolute
	Digest string // hex SHA-256 as it was read
	Text   []byte // likewise; nil where all together would be too much to keep
}

// Option adds to what a Set knows.
type Option func(*Set)

// WithKnown makes f the source of what the daemon knows of a call beside the
// call itself. f must be fast and safe for concurrent use.
func WithKnown(f func(*gate.Call) Known) Option {
	return func(s *Set) { s.known = f }
}

// WithSeen tells which servers have been seen, so that a rule about one that
// nobody has seen can be pointed out: it is often a slip.
func WithSeen(servers []string) Option {
	return func(s *Set) { s.seen = servers }
}

// Load builds the Set of cfg: it reads the Cedar files that cfg names, and
// checks what the configuration can't be checked for without them. The Set is
// nil when any diagnostic is an error. cfg must not be changed afterwards.
func Load(cfg *config.Config, opts ...Option) (*Set, []config.Diagnostic) {
	s := newSet(cfg)
	for _, opt := range opts {
		opt(s)
	}
	l := &loader{Set: s}
	l.compileRules()
	l.loadPolicies()
	s.byID = make(map[string]*policy, len(s.policies))
	for _, p := range s.policies {
		s.byID[p.id] = p
	}
	s.index = newIndex(s.policies)
	l.checkSchema()
	s.digest = s.sum()
	for _, f := range s.files {
		s.paths = append(s.paths, f.Path)
	}
	if s.generated() {
		l.checkGenerated()
	}
	l.warn()
	l.notYet()
	l.unbound()
	config.Sort(l.found)
	if config.HasErrors(l.found) {
		return nil, l.found
	}
	return s, l.found
}

// newSet is a set that knows nothing beside its configuration.
func newSet(cfg *config.Config) *Set {
	return &Set{cfg: cfg, known: func(*gate.Call) Known { return Known{} }, tools: noTools{}, checks: &checkedTools{}}
}

// loader collects what is wrong while a Set is built.
type loader struct {
	*Set
	found []config.Diagnostic
}

func (l *loader) report(p config.Place, severity config.Severity, id, hint, format string, args ...any) {
	l.found = append(l.found, p.Diagnostic(severity, id, hint, format, args...))
}

// warn tells of what can be meant and yet surprises.
func (l *loader) warn() {
	if l.seen != nil {
		for i := range l.cfg.Governance.Rules {
			l.unseen(&l.cfg.Governance.Rules[i])
		}
	}
	if len(l.policies) > 0 {
		return
	}
	const hint = "write a permit into policies/, or use another action"
	for i := range l.rules {
		if l.rules[i].action == config.Policy {
			l.report(l.cfg.Governance.Rules[i].Place, config.Warning, "", hint, "the rule needs a Cedar permit and there are no policies: it refuses everything")
		}
	}
	for _, a := range []*config.Action{&l.cfg.Governance.Defaults.Action, &l.cfg.Governance.Defaults.Asks} {
		if p := l.cfg.Place(a); *a == config.Policy && p.Line > 0 {
			l.report(p, config.Warning, "", hint, "the default needs a Cedar permit and there are no policies: it refuses everything")
		}
	}
}

// unseen warns of a rule about a server that no source knows and nobody has
// seen. What a headless agent asks of its host is asked of a server of its name.
func (l *loader) unseen(r *config.Rule) {
	for i := range r.Source {
		id := r.Source[i]
		if !id.Literal() || slices.Contains(l.seen, id.String()) || l.cfg.Source(id.String()) != nil || l.cfg.Agents[id.String()] != nil {
			continue
		}
		hint := ""
		if near := config.Nearest(id.String(), l.seen); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		l.report(l.cfg.Place(&r.Source[i]), config.Warning, "V-007", hint, "no server %q has been seen yet", id)
	}
}

// sum digests everything that decides: the configuration with the variables it
// names, and each file.
func (s *Set) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", s.cfg.Digest)
	for _, f := range s.files {
		if f.Path != s.cfg.Path {
			fmt.Fprintf(h, "%s %q\n", f.Digest, f.Path)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Profile is the loosest profile a shim may run under.
func (s *Set) Profile() gate.Profile { return gate.Profile(s.cfg.Profile) }

// Digest names the set: the hex SHA-256 over the configuration and all Cedar
// files. Sets with the same digest decide alike.
func (s *Set) Digest() string { return s.digest }

// Config returns the configuration that the set was built from.
func (s *Set) Config() *config.Config { return s.cfg }

// Files lists what the set was read from: the configuration, then the Cedar
// files in the order of their paths, then the schema. The built-in default has
// none.
func (s *Set) Files() []File { return append([]File(nil), s.files...) }

// Paths names the files that Files lists, in the same order. It is not to be
// changed, and costs nothing.
func (s *Set) Paths() []string { return s.paths }

// Changed lists the paths that are not as they were when the set was built:
// files that changed, went away or came since. It reads them, so it is for
// status and not for a call.
func (s *Set) Changed() []string {
	var changed []string
	have := map[string]bool{}
	for _, f := range s.files {
		have[f.Path] = true
		if b, err := config.ReadFile(f.Path, maxAnyFile); err != nil || digestOf(b) != f.Digest {
			changed = append(changed, f.Path)
		}
	}
	now := &loader{Set: &Set{cfg: s.cfg}}
	for _, path := range now.policyPaths() {
		if !have[path] {
			changed = append(changed, path)
		}
	}
	return changed
}

// Description is a set in short, for status.
type Description struct {
	Source   string // path of the configuration, empty for the built-in default
	Digest   string
	Profile  gate.Profile
	Rules    int
	Policies int
	Files    []File
}

// Describe returns the set in short.
func (s *Set) Describe() Description {
	return Description{
		Source: s.cfg.Path, Digest: s.digest, Profile: s.Profile(),
		Rules: len(s.rules), Policies: len(s.policies), Files: s.Files(),
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Shared reports whether the server with this id and resolved command line is to
// be one process for all sessions. One that its source is tied to another command
// than, or that is switched off, is not.
func (s *Set) Shared(server string, command []string) bool {
	source := s.cfg.Source(server)
	return source != nil && source.Shared && source.Enabled &&
		(source.Command.IsZero() || source.Command.Match(strings.Join(command, " ")))
}

// unbound warns of shared servers that no command ties to a program.
func (l *loader) unbound() {
	for i := range l.cfg.Sources {
		if s := &l.cfg.Sources[i]; s.Shared && s.Command.IsZero() {
			l.report(s.Place, config.Warning, "", "add command: with a glob over its command line",
				"shared: true without command: the daemon starts whatever program an agent's entry names under this id")
		}
	}
}

// notYet warns of settings that are understood and change nothing in this
// version, so that nobody relies on them.
func (l *loader) notYet() {
	warn := func(p config.Place, what string) {
		l.report(p, config.Warning, "", "", "%s has no effect in this version", what)
	}
	c := l.cfg
	for i := range c.Sources {
		s := &c.Sources[i]
		if s.TrustAnnotations {
			warn(s.Place, "trust_annotations: true")
		}
	}
	for _, w := range c.Approval {
		if w.RequireInteraction {
			warn(w.Place, "require_interaction: true")
		}
	}
}
