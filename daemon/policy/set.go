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

// Set is one configuration with its policies. It does not change: a decision depends only on the
// call, with the time at which it arrived (context.time), on its facts, and on what the functions
// and tools that the options set return. It is safe for concurrent use.
type Set struct {
	cfg      *config.Config
	rules    []rule
	defaults rule      // for calls of agents
	ownTools []rule    // for calls of agents' own tools, before defaults
	forAsks  rule      // for sampling and URL elicitation
	policies []*policy // by file and position
	byID     map[string]*policy
	index    index
	redact   []string // redact_fields of all workflows
	files    []File
	paths    []string // of files
	digest   string
	known    func(*gate.Call) Known
	tools    Tools
	checks   *checkedTools

	ofFleet bool     // it is a fleet's policy
	fleet   *besides // the fleet's policy or, in one, the user's own; nil if there is none

	seenServers []string // nil if not known
	showHidden  bool     // hide nothing; set only to explain a ruling
	standing    string   // see WithStanding
}

var _ gate.Policy = (*Set)(nil)

// File is a file from which a Set was built.
type File struct {
	Path   string // absolute
	Digest string // hex SHA-256 of the content that was read
	Text   []byte // the content that was read; nil if the files are too large to keep
}

// Option configures Load.
type Option func(*Set)

// WithKnown sets the function that returns what the daemon knows about a call in addition to the
// call itself. f must be fast and safe for concurrent use.
func WithKnown(f func(*gate.Call) Known) Option {
	return func(s *Set) { s.known = f }
}

// WithSeen sets the servers that have been seen. Load warns of a rule about any other server,
// which is often a mistake.
func WithSeen(servers []string) Option {
	return func(s *Set) { s.seenServers = servers }
}

// Load builds the Set of cfg. It reads and checks the Cedar files that cfg names. The Set is nil
// if any diagnostic is an error. cfg must not be changed afterwards.
func Load(cfg *config.Config, opts ...Option) (*Set, []config.Diagnostic) {
	return build(cfg, nil, opts)
}

func build(cfg *config.Config, bundle *config.Bundle, opts []Option) (*Set, []config.Diagnostic) {
	s := newSet(cfg)
	for _, opt := range opts {
		opt(s)
	}
	l := &loader{Set: s, bundle: bundle}
	l.compileRules()
	if bundle == nil {
		l.compileOwnTools()
		l.loadPolicies()
	} else {
		l.compileBundle()
	}
	s.setPolicies(s.policies)
	l.checkSchema()
	s.digest = s.computeDigest()
	if bundle != nil {
		s.digest = bundleDigest(bundle)
	}
	for _, f := range s.files {
		s.paths = append(s.paths, f.Path)
	}
	if s.generated() {
		l.checkGenerated()
	}
	l.warnRules()
	l.warnNoEffect()
	l.warnUnbound()
	config.Sort(l.found)
	if config.HasErrors(l.found) {
		return nil, l.found
	}
	return s, l.found
}

// setPolicies sets the policies of a set that is under construction.
func (s *Set) setPolicies(policies []*policy) {
	s.policies, s.byID, s.index = policies, make(map[string]*policy, len(policies)), newIndex(policies)
	for _, p := range policies {
		s.byID[p.id] = p
	}
}

// newSet returns a set without rules and policies.
func newSet(cfg *config.Config) *Set {
	return &Set{cfg: cfg, known: func(*gate.Call) Known { return Known{} }, tools: noTools{}, checks: &checkedTools{}}
}

// loader builds a Set and collects diagnostics.
type loader struct {
	*Set
	bundle *config.Bundle // nil unless the set is made of one
	found  []config.Diagnostic
}

func (l *loader) report(p config.Place, severity config.Severity, id, hint, format string, args ...any) {
	l.found = append(l.found, p.Diagnostic(severity, id, hint, format, args...))
}

// warnRules warns of rules about servers that have not been seen, and of rules that need policies
// if there are none.
func (l *loader) warnRules() {
	if l.seenServers != nil {
		for i := range l.cfg.Governance.Rules {
			l.warnUnseen(&l.cfg.Governance.Rules[i])
		}
	}
	if len(l.policies) > 0 {
		return
	}
	const hint = "add a permit to policies/, or use another action"
	for i := range l.rules {
		if l.rules[i].action == config.Policy {
			l.report(l.cfg.Governance.Rules[i].Place, config.Warning, "", hint, "the rule needs a Cedar permit, and there are no policies: it denies everything")
		}
	}
	for _, a := range []*config.Action{&l.cfg.Governance.Defaults.Action, &l.cfg.Governance.Defaults.Asks} {
		if p := l.cfg.Place(a); *a == config.Policy && p.Line > 0 {
			l.report(p, config.Warning, "", hint, "the default needs a Cedar permit, and there are no policies: it denies everything")
		}
	}
}

// warnUnseen warns of a rule about a server that is neither in a source nor seen before. In
// requests to its host, a headless agent is the server of the same name.
func (l *loader) warnUnseen(r *config.Rule) {
	for i := range r.Source {
		id := r.Source[i]
		if !id.Literal() || slices.Contains(l.seenServers, id.String()) || l.cfg.Source(id.String()) != nil || l.cfg.Agents[id.String()] != nil {
			continue
		}
		hint := didYouMean("%q", id.String(), l.seenServers)
		l.report(l.cfg.Place(&r.Source[i]), config.Warning, "V-007", hint, "no server %q has been seen yet", id)
	}
}

// computeDigest hashes everything that affects decisions: the configuration with the variables
// that it refers to, and each file.
func (s *Set) computeDigest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", s.cfg.Digest)
	for _, f := range s.files {
		if f.Path != s.cfg.Path {
			fmt.Fprintf(h, "%s %q\n", f.Digest, f.Path)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Profile returns the loosest profile under which a shim may run.
func (s *Set) Profile() gate.Profile {
	if s.fleet != nil {
		return s.fleet.profile(gate.Profile(s.cfg.Profile))
	}
	return gate.Profile(s.cfg.Profile)
}

// Digest returns the hex SHA-256 of the configuration and all Cedar files. Sets with the same
// digest and the same options decide alike about a call with the same facts and time of arrival.
func (s *Set) Digest() string { return s.digest }

// Config returns the configuration that the set was built from.
func (s *Set) Config() *config.Config { return s.cfg }

// Files returns the files from which the set was read: the configuration, then the Cedar files by
// path, then the schema. The built-in default has none.
func (s *Set) Files() []File { return append([]File(nil), s.files...) }

// Paths returns the paths of Files in the same order. The caller must not modify the slice.
func (s *Set) Paths() []string { return s.paths }

// Changed returns the paths of files that were changed, added or removed since the set was built.
// It reads the files.
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

// Description summarizes a Set for status output.
type Description struct {
	Source   string // path of the configuration; empty for the built-in default
	Digest   string
	Profile  gate.Profile
	Rules    int
	Policies int
	Files    []File
	Natively []string // agents that may ask their own users

	Fleet string // mode of the fleet's policy that takes part: floor or full; empty if none does

	FailUngoverned bool // no agent is wrapped that has a server which stays ungoverned
}

// Describe returns a summary of the set.
func (s *Set) Describe() Description {
	if s.fleet != nil {
		return s.describeInFleet()
	}
	return Description{
		Source: s.cfg.Path, Digest: s.digest, Profile: s.Profile(),
		Rules: len(s.rules), Policies: len(s.policies), Files: s.Files(), Natively: s.cfg.NativeAgents(),
		FailUngoverned: slices.Contains(s.cfg.FailOn, config.FailOnUngoverned),
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Shared reports whether the server with this id and resolved command line runs as one process
// for all sessions: its source says so, is enabled, and names no other command.
func (s *Set) Shared(server string, command []string) bool {
	if s.fleet != nil && s.fleet.own != nil { // how a server runs is the machine's
		return s.fleet.own.Shared(server, command)
	}
	source := s.cfg.Source(server)
	return source != nil && source.Shared && source.Enabled &&
		(source.Command.IsZero() || source.Command.Match(strings.Join(command, " ")))
}

// warnUnbound warns of shared servers whose source names no command.
func (l *loader) warnUnbound() {
	for i := range l.cfg.Sources {
		if s := &l.cfg.Sources[i]; s.Shared && s.Command.IsZero() {
			l.report(s.Place, config.Warning, "", "add command: with a glob over its command line",
				"shared: true without command: the daemon starts whatever program an agent's entry names under this id")
		}
	}
}

// warnNoEffect warns of settings that have no effect in this version, so that nobody relies on
// them.
func (l *loader) warnNoEffect() {
	for _, w := range l.cfg.Approval {
		if w.RequireInteraction {
			l.report(w.Place, config.Warning, "", "", "require_interaction: true has no effect in this version")
		}
	}
}
