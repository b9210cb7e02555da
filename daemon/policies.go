package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// policies holds the set in force. A reload builds a new set and swaps one pointer; calls under way
// finish under the set they began with. Only a signal or a call reloads: agents have tools that can
// write files.
type policies struct {
	path     string // where the configuration is looked up
	named    bool
	getenv   func(string) string
	recorder gate.Recorder
	log      *slog.Logger
	options  []policy.Option      // passed to every set
	applied  func(*config.Config) // notifies the parts that have settings of their own
	standing func(digest string)  // stores which set is in force, for the next daemon
	before   string               // digest of the set that a previous daemon had in force
	seen     func() []string      // returns the ids of known servers; nil without a daemon

	current atomic.Pointer[inForce]

	reloading sync.Mutex // held during a reload
	// fleet combines the user's set with the fleet's policy; nil if there is none. reloading guards it.
	fleet func(own *policy.Set) *policy.Set

	mu      sync.Mutex // guards the fields below
	failure string
	failed  time.Time
}

// inForce is a set, with when it was put in force and by whom.
type inForce struct {
	loaded
	judges   *policy.Set // the set, with what the fleet's policy adds to it or puts in its place
	warnings []config.Diagnostic
	since    time.Time
	by       string
}

// set returns the set in force, by which calls are judged.
func (p *policies) set() gate.Policy { return p.current.Load().judges }

// inFleet returns own, combined with the fleet's policy if there is one. p.reloading must be held.
func (p *policies) inFleet(own *policy.Set) *policy.Set {
	if p.fleet == nil {
		return own
	}
	return p.fleet(own)
}

// useFleet puts a fleet's policy in force, or takes it out of force if combine is nil.
func (p *policies) useFleet(combine func(own *policy.Set) *policy.Set) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	p.fleet = combine
	now := *p.current.Load()
	now.judges, now.since, now.by = p.inFleet(now.set), time.Now(), "fleet"
	p.current.Store(&now)
	p.applied(now.config)
	p.log.Info("the fleet's policy has changed", "set", now.judges.Digest())
}

// approves reports whether, by the set in force, a Slack user may answer the questions of a
// workflow.
func (p *policies) approves(workflow, user string) bool {
	_, w := p.current.Load().config.Workflow(workflow)
	return w != nil && w.Answers(user)
}

// Reload implements api.Policies.
func (p *policies) Reload(ctx context.Context, by string) (api.PolicySet, []config.Diagnostic, error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	before := p.digest()
	next, problems, err := p.load("")
	r := &record.Record{Kind: record.KindReload, Decider: by, Verdict: "in_force"}
	if err != nil {
		r.Verdict, r.Reason = "refused", err.Error()
		p.fail(err.Error())
		p.log.Error("reload", "by", by, "err", err)
		if rerr := p.recorder.Record(ctx, r, nil, nil); rerr != nil {
			p.log.Error("record the reload", "err", rerr)
		}
		return api.PolicySet{}, problems, fmt.Errorf("reload: %w", err)
	}
	judges := p.inFleet(next.set)
	r.Set, r.Profile = judges.Digest(), string(judges.Profile())
	if err := p.recorder.Record(ctx, r, nil, nil); err != nil {
		err = fmt.Errorf("reload: the previous set stays in force, because the new one can't be recorded: %w", err)
		p.fail(err.Error())
		return api.PolicySet{}, nil, err
	}
	p.current.Store(&inForce{next, judges, problems, time.Now(), by})
	p.applied(next.config)
	if next.set.Digest() != before {
		p.standing(next.set.Digest())
	}
	p.fail("")
	p.log.Info("reloaded", "by", by, "source", next.config.Path, "set", next.set.Digest())
	return p.Describe(), problems, nil
}

// load loads the configuration at path, or the daemon's own if path is empty, and makes a set of it
// that knows what the daemon knows.
func (p *policies) load(path string) (loaded, []config.Diagnostic, error) {
	return load(cmp.Or(path, p.path), path != "" || p.named, p.getenv, p.loadOptions()...)
}

// try makes a set of text, as if the file at path had it; if path is empty, the daemon's own file. If there
// are errors, it has no set.
func (p *policies) try(path string, text []byte) (loaded, []config.Diagnostic) {
	path = cmp.Or(path, p.path)
	cfg, problems := config.Parse(path, text, p.getenv)
	l, problems, _ := setOf(path, cfg, problems, p.loadOptions()...) // the problems say it
	return l, problems
}

// loadOptions returns what a set is made with.
func (p *policies) loadOptions() []policy.Option {
	options := append(slices.Clip(p.options), policy.WithStanding(p.digest()))
	if p.seen != nil {
		options = append(options, policy.WithSeen(p.seen()))
	}
	return options
}

// digest returns the digest of the user's set in force. Before the first set is loaded it is that of the
// previous daemon, which may be empty.
func (p *policies) digest() string {
	if now := p.current.Load(); now != nil {
		return now.set.Digest()
	}
	return p.before
}

func (p *policies) fail(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure, p.failed = why, time.Now()
}

// Failure implements api.Policies.
func (p *policies) Failure() (string, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure, p.failed
}

// Describe implements api.Policies.
func (p *policies) Describe() api.PolicySet {
	now := p.current.Load()
	if now == nil {
		return api.PolicySet{} // without a daemon no set is in force
	}
	set := describe(now.loaded)
	set.Description = now.judges.Describe()
	set.Since, set.By = now.since, now.by
	return set
}

// Detail implements api.Policies.
func (p *policies) Detail() policy.Detail {
	now := p.current.Load()
	if now == nil {
		return policy.Detail{}
	}
	return now.judges.Detail()
}

func describe(l loaded) api.PolicySet {
	set := api.PolicySet{Description: l.set.Describe(), Changed: l.set.Changed()}
	set.Checked, set.Waiting, set.Refused = l.set.Checked()
	return set
}

// Validate implements api.Policies.
func (p *policies) Validate(path string) (string, *api.PolicySet, []config.Diagnostic) {
	if isProject(cmp.Or(path, p.path)) {
		return validateProject(cmp.Or(path, p.path))
	}
	l, problems, err := p.load(path)
	if err != nil {
		return cmp.Or(path, p.path), nil, problems
	}
	set := describe(l)
	return l.config.Path, &set, problems
}

// validateProject is Validate for the file of a project.
func validateProject(path string) (string, *api.PolicySet, []config.Diagnostic) {
	project, problems := config.LoadProject(path)
	if project == nil {
		return path, nil, problems
	}
	cfg := project.Config()
	return path, &api.PolicySet{Project: true, Description: policy.Description{
		Source: path, Digest: cfg.Digest, Rules: len(cfg.Governance.Rules), Files: []policy.File{{Path: path, Digest: cfg.FileDigest}},
	}}, problems
}

// Options implements api.Policies.
func (p *policies) Options() config.Shim { return p.current.Load().config.Shim }

// Shared implements api.Policies.
func (p *policies) Shared(server string, command []string) bool {
	return p.current.Load().set.Shared(server, command)
}

// warnings returns what a person should know about the set in force.
func (p *policies) warnings() []string {
	var all []string
	now := p.current.Load()
	if now.config.Path == "" {
		all = append(all, "there is no configuration file: the built-in default is in force")
		if _, err := os.Lstat(p.path); err == nil {
			all = append(all, fmt.Sprintf("%s is new and not in force; review it and run `tgctl daemon reload`", p.path))
		}
	}
	for _, d := range now.warnings {
		all = append(all, d.Remark()) // whoever shows it says that it is a warning
	}
	for _, path := range now.set.Changed() {
		all = append(all, fmt.Sprintf("%s has changed and is not in force; review it and run `tgctl daemon reload`", path))
	}
	if now.judges.Profile() == gate.Development {
		all = append(all, "the development profile is in force: nothing is denied")
	}
	return all
}

// ConfigError reports an invalid configuration, with all its problems.
type ConfigError struct {
	Path     string
	Problems []config.Diagnostic
}

func (e *ConfigError) Error() string {
	n := 0
	for _, d := range e.Problems {
		if d.Severity == config.Error {
			n++
		}
	}
	what := "one error"
	if n != 1 {
		what = fmt.Sprintf("%d errors", n)
	}
	return fmt.Sprintf("the configuration %s has %s and is not used; fix it and run `tgctl policy check`", e.Path, what)
}

// loaded is a configuration and the set made of it.
type loaded struct {
	config *config.Config
	set    *policy.Set
}

// load loads the configuration at path and makes a set of it. It returns warnings beside the set.
// If it fails, the error is a *ConfigError and the diagnostics contain all problems.
func load(path string, named bool, getenv func(string) string, options ...policy.Option) (loaded, []config.Diagnostic, error) {
	cfg, problems := config.Open(path, named, getenv)
	return setOf(path, cfg, problems, options...)
}

// setOf makes a set of a configuration that was parsed, with the problems that were found; of none if that failed.
func setOf(path string, cfg *config.Config, problems []config.Diagnostic, options ...policy.Option) (loaded, []config.Diagnostic, error) {
	if cfg == nil {
		return loaded{}, problems, &ConfigError{Path: path, Problems: problems}
	}
	set, more := policy.Load(cfg, options...)
	problems = append(problems, more...)
	if set == nil || config.HasErrors(problems) {
		return loaded{}, problems, &ConfigError{Path: path, Problems: problems}
	}
	return loaded{cfg, set}, problems, nil
}

// Check loads the configuration that the flag or the environment names and reports all its
// problems, except those that only a daemon can see because it knows the servers. The path is empty
// for the built-in default.
func Check(flag string, getenv func(string) string) (path string, problems []config.Diagnostic, err error) {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return "", nil, err
	}
	path, named := config.Find(flag, getenv, paths.Config)
	if isProject(path) {
		_, problems := config.LoadProject(path)
		return path, problems, nil
	}
	l, problems, err := load(path, named, getenv)
	if err != nil {
		return path, problems, nil // the problems say it
	}
	return l.config.Path, problems, nil
}

// isProject reports whether path names the file of a project, which may contain less than a
// configuration.
func isProject(path string) bool { return filepath.Base(path) == config.ProjectFileName }

// standing stores which set is in force, for the next daemon. A reload doesn't wait for the disk;
// of several in a row only the last is certain to be stored.
type standing struct {
	latest chan string // digest; capacity 1
	done   chan struct{}
}

// newStanding starts the goroutine that stores digests. Close must be called.
func newStanding(db *store.DB, log *slog.Logger) *standing {
	s := &standing{latest: make(chan string, 1), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for digest := range s.latest {
			if err := db.PutActiveSet(context.Background(), digest); err != nil {
				log.Warn("the next daemon will not know which set was in force", "err", err)
			}
		}
	}()
	return s
}

// put sets the digest of the set in force. It must not be called concurrently.
func (s *standing) put(digest string) {
	select {
	case <-s.latest: // drop an older digest
	default:
	}
	s.latest <- digest
}

// Close returns when the last digest has been stored.
func (s *standing) Close() {
	close(s.latest)
	<-s.done
}
