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

// policies holds the set in force. A reload builds a whole new one beside it
// and swaps one pointer; calls in flight finish under the set they began with.
// Nothing but a signal or a call reloads: an agent's file tool can write files.
type policies struct {
	path     string // where the configuration is looked for
	named    bool
	getenv   func(string) string
	recorder gate.Recorder
	log      *slog.Logger
	options  []policy.Option      // what every set is given to know
	applied  func(*config.Config) // tells the parts that take settings of their own
	standing func(digest string)  // keeps which set is in force over a restart
	before   string               // digest of the set that an earlier daemon had in force
	seen     func() []string      // ids of the servers that are known; nil without a daemon

	current atomic.Pointer[inForce]

	reloading sync.Mutex // one reload at a time

	mu      sync.Mutex // guards what follows
	failure string
	failed  time.Time
}

// inForce is a set and since when it counts, by whose word.
type inForce struct {
	loaded
	warnings []config.Diagnostic
	since    time.Time
	by       string
}

// set is the set that a judgement begins with.
func (p *policies) set() gate.Policy { return p.current.Load().set }

// approves reports whether a user of Slack may answer what a workflow asks, by the
// set in force.
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
	r.Set, r.Profile = next.set.Digest(), string(next.set.Profile())
	if err := p.recorder.Record(ctx, r, nil, nil); err != nil {
		err = fmt.Errorf("reload: the old set stays in force, since the new one can't be recorded: %w", err)
		p.fail(err.Error())
		return api.PolicySet{}, nil, err
	}
	p.current.Store(&inForce{next, problems, time.Now(), by})
	p.applied(next.config)
	if next.set.Digest() != before {
		p.standing(next.set.Digest())
	}
	p.fail("")
	p.log.Info("reloaded", "by", by, "source", next.config.Path, "set", next.set.Digest())
	return p.Describe(), problems, nil
}

// load reads a configuration, that of the daemon where path is empty, and makes a set of
// it that knows what the daemon knows.
func (p *policies) load(path string) (loaded, []config.Diagnostic, error) {
	named := path != "" || p.named
	options := append(slices.Clip(p.options), policy.WithStanding(p.digest()))
	if p.seen != nil {
		options = append(options, policy.WithSeen(p.seen()))
	}
	return load(cmp.Or(path, p.path), named, p.getenv, options...)
}

// digest names the set that is in force, or was before the first one is loaded; empty for
// none.
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
		return api.PolicySet{} // without a daemon nothing is in force
	}
	set := describe(now.loaded)
	set.Since, set.By = now.since, now.by
	return set
}

// Detail implements api.Policies.
func (p *policies) Detail() policy.Detail {
	now := p.current.Load()
	if now == nil {
		return policy.Detail{}
	}
	return now.set.Detail()
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

// validateProject is Validate for a project's own file.
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

// warnings are what a person should know of the set in force.
func (p *policies) warnings() []string {
	var all []string
	now := p.current.Load()
	if now.config.Path == "" {
		all = append(all, "there is no configuration file: the built-in default is in force")
		if _, err := os.Lstat(p.path); err == nil {
			all = append(all, fmt.Sprintf("%s has come since and is not in force; put it in force with `tgctl daemon reload`", p.path))
		}
	}
	for _, d := range now.warnings {
		all = append(all, d.String())
	}
	for _, path := range now.set.Changed() {
		all = append(all, fmt.Sprintf("%s has changed and is not in force; look at it and put it in force with `tgctl daemon reload`", path))
	}
	if now.set.Profile() == gate.Development {
		all = append(all, "the development profile is in force: nothing is refused")
	}
	return all
}

// ConfigError refuses a configuration and says everything that is wrong with it.
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
	return fmt.Sprintf("the configuration %s has %s and nothing is judged under it; mend it and look at it with `tgctl policy check`", e.Path, what)
}

// loaded is a configuration and the set that was made of it.
type loaded struct {
	config *config.Config
	set    *policy.Set
}

// load reads the configuration that Find names and makes the set of it. What is wrong
// with it is returned beside it, and all of that beside the error, a *ConfigError.
func load(path string, named bool, getenv func(string) string, options ...policy.Option) (loaded, []config.Diagnostic, error) {
	cfg, problems := config.Open(path, named, getenv)
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

// Check reads the configuration that the flag or the environment names and says
// everything that is wrong with it, as far as it can be said without what a
// daemon knows of servers. The path is empty for the built-in default.
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
		return path, problems, nil // they say it
	}
	return l.config.Path, problems, nil
}

// isProject reports whether a path names a project's own file, which says less
// than a configuration may.
func isProject(path string) bool { return filepath.Base(path) == config.ProjectFileName }

// standing keeps which set is in force over a restart. A reload doesn't wait for
// the disk; of several in a row the last one is kept.
type standing struct {
	latest chan string // digest; holds one
	done   chan struct{}
}

// newStanding starts to keep. Close must be called.
func newStanding(db *store.DB, log *slog.Logger) *standing {
	s := &standing{latest: make(chan string, 1), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for digest := range s.latest {
			if err := db.KeepStanding(context.Background(), digest); err != nil {
				log.Warn("the next daemon will not know which set was in force", "err", err)
			}
		}
	}()
	return s
}

// put notes the set that is in force. It must not be called concurrently.
func (s *standing) put(digest string) {
	select {
	case <-s.latest: // one that nobody needs any more
	default:
	}
	s.latest <- digest
}

// Close returns when the last digest has been kept.
func (s *standing) Close() {
	close(s.latest)
	<-s.done
}
