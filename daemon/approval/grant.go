package approval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Grant is an approval for more than one call, as stored and shown.
type Grant = store.Grant

// What must equal the call that was asked about.
const (
	MatchTool = "tool" // what is called
	MatchArgs = "args" // also every byte of the arguments
	MatchSome = "some" // also the named arguments

	// The grains of a command of the agent's shell: what it does, and in which folder. Its other
	// arguments must be equal, except those that change nothing of what it does.
	MatchVerb    = "verb"
	MatchProgram = "program"
)

// freeArgs are the arguments of the agent's shell that may differ under a grain: the grain says what
// the first two may be. "" stands for all of them together.
var freeArgs = []string{"command", "cwd", "description", "timeout", "timeout_ms", ""}

// IsGrain reports whether a grant with that match is for what a command does.
func IsGrain(match string) bool { return match == MatchVerb || match == MatchProgram }

// GrainOffered returns the grain with which a call of the agent's shell can be granted, MatchVerb or
// MatchProgram, or why there is none; and nothing for another call.
func GrainOffered(asked *Question) (match, why string) {
	switch g := asked.Grain; {
	case g == nil:
	case g.Alone != "":
		return "", g.Alone
	case narrow(asked.Server, factNames(asked)) != "":
		return "", "the fact " + narrow(asked.Server, factNames(asked)) + " holds for this very command"
	case g.Verb != "":
		return MatchVerb, ""
	default:
		return MatchProgram, ""
	}
	return "", ""
}

func factNames(q *Question) (names []string) {
	for _, text := range q.Facts {
		names = append(names, factName(text))
	}
	return names
}

// Where a grant is in force.
const (
	InSession = "session"
	InProject = "project"
	Always    = "always"
)

// LongestGrant is the maximum duration of a grant.
const LongestGrant = 30 * 24 * time.Hour

// Terms are what a person specifies for a grant. Except for For and Times, a zero value
// means the narrowest choice.
type Terms struct {
	For   time.Duration // at most LongestGrant
	Times uint64        // calls that it approves, in addition to the one asked about; 0: any number
	Match string        // MatchArgs if empty
	Args  []string      // for MatchSome: names of arguments
	Scope string        // InSession if empty
}

// endedGrants is the number of ended grants that are kept.
const endedGrants = 1000

// terms returns the grant that a person gives with an approval of asked. ErrInvalid says
// what can't be granted.
func (q *Queue) terms(asked *Question, t *Terms, d *Decision) (*Grant, error) {
	refuse := func(format string, args ...any) (*Grant, error) {
		return nil, fmt.Errorf("%w grant: "+format, append([]any{gate.ErrInvalid}, args...)...)
	}
	match, scope := cmp.Or(t.Match, MatchArgs), cmp.Or(t.Scope, InSession)
	g := &Grant{Times: t.Times, Bounds: store.Bounds{
		Agent: asked.Agent, Session: asked.Session, Project: asked.Project, Server: asked.Server, Launch: asked.Launch,
		Definition: asked.Definition, Extent: asked.Extent, Method: asked.Method, Tool: asked.Tool, Workflow: asked.Workflow, Rule: asked.Rule, Basis: asked.Basis,
		Match: match, Scope: scope, Approval: asked.ID, Decider: d.Decider, Surface: d.Surface, Level: string(levelOf(asked.Level)), Note: d.Note,
	}}
	g.Facts = factNames(asked)
	grain, alone := GrainOffered(asked)
	switch {
	case len(ofBeside(asked.Members)) == 0:
		return refuse("an earlier release asked it, without checking the params other than the arguments; answer it without a grant")
	case t.For <= 0 || t.For > LongestGrant:
		return refuse("for %v: a grant lasts at most 30 days", t.For)
	case asked.Direction != gate.Direction(wire.FromAgent):
		return refuse("requests of a server can't be granted")
	case slices.Contains(g.Facts, gate.FactOurs):
		return refuse("calls on ThoughtGate's own files or a wrapped configuration must be approved one by one")
	case IsGrain(match) && asked.Grain == nil:
		return refuse("only a command line of the agent's own shell can be granted by its verb or program; use --match args")
	case IsGrain(match) && alone != "":
		return refuse("no other command can be granted with it: %s; grant it with the same arguments only (--match args), or approve it once", alone)
	case match == MatchVerb && grain != match:
		return refuse("no word of %s is known to say what it does; use --match program", asked.Grain.Program)
	case match == MatchProgram && grain != match:
		return refuse("%s does many things and is granted by what it does; use --match verb", asked.Grain.Program)
	case match != MatchArgs && narrow(g.Server, g.Facts) != "":
		return refuse("the fact %s holds for this very call; grant it with the same arguments only (--match args), or approve it once", narrow(g.Server, g.Facts))
	case scope != InSession && scope != InProject && scope != Always:
		return refuse("in %q: the scope must be session, project or always", scope)
	case scope != Always && asked.Session == "":
		return refuse("the call belongs to no session or project, so the scope can only be always")
	case (match == MatchSome) != (len(t.Args) > 0):
		return refuse("name the arguments that must be equal")
	}
	names := t.Args
	switch match {
	case MatchTool:
		names = nil
	case MatchArgs:
		names = []string{""}
	case MatchSome:
	case MatchVerb, MatchProgram:
		g.Grain, names = asked.Grain, boundByGrain(asked.Members)
	default:
		return refuse("match %q: it must be tool, args, some, verb or program", match)
	}
	if missing, err := bind(g, asked, names); err != nil {
		return nil, err
	} else if missing != "" {
		return refuse("the call has no argument %q", missing)
	}
	return g, nil
}

// narrow returns the fact because of which no other call of server can be granted with one of which
// facts are true, or "".
func narrow(server string, facts []string) string {
	i := slices.IndexFunc(facts, func(name string) bool { return !gate.Widens(server, name) })
	if i < 0 {
		return ""
	}
	return facts[i]
}

// boundByGrain returns the names of the arguments that a grain says nothing about.
func boundByGrain(members map[string][]byte) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(name string) bool { return slices.Contains(freeArgs, name) })
}

// bind binds g to the named arguments of q, "" meaning all of them, and to its other
// params. If q lacks a named argument, bind returns its name.
func bind(g *Grant, q *Question, names []string) (missing string, err error) {
	g.Salt, g.Members = make([]byte, 16), map[string][]byte{}
	if _, err := rand.Read(g.Salt); err != nil {
		return "", err
	}
	g.Beside = salted(g.Salt, ofBeside(q.Members))
	for _, name := range names {
		digest, ok := q.Members[name]
		if name == "" {
			digest = ofArguments(q.Members)
		}
		if !ok {
			return name, nil
		}
		g.Members[name] = salted(g.Salt, digest)
	}
	return "", nil
}

func salted(salt, digest []byte) []byte {
	h := hmac.New(sha256.New, salt)
	h.Write(digest)
	return h.Sum(nil)
}

// grant puts g in force. It is recorded and on disk when grant returns.
func (q *Queue) grant(ctx context.Context, g *Grant, term time.Duration) error {
	now := q.o.Now()
	g.Created = now.UTC().Truncate(resolution)
	g.Expires = g.Created.Add(term)
	g.Boot, g.Deadline = q.deadlineAfter(term)
	if err := q.db.AddGrant(ctx, g); err != nil {
		return err
	}
	if err := q.o.Recorder.Record(ctx, grantRecord(g, "granted", ""), nil, nil); err != nil {
		g.Ended, g.End = g.Created, "it could not be recorded"
		return errors.Join(fmt.Errorf("record grant %s: %w", g.ID, err), q.db.EndGrant(ctx, g))
	}
	q.grants[g.ID] = &given{*g, now.Add(term)}
	q.wakeExpiry()
	return nil
}

// given is a grant in force.
type given struct {
	g   Grant
	due time.Time // with the monotonic clock
}

// endGrant ends a grant in force. A failure to record the end is only logged, since the
// end of a grant permits nothing.
func (q *Queue) endGrant(ctx context.Context, v *given, verdict, why string) {
	g := &v.g
	ctx = context.WithoutCancel(ctx)
	g.Ended, g.End = q.o.Now().UTC().Truncate(resolution), why
	delete(q.grants, g.ID)
	if why != usedUp { // repeated calls are asked about again
		maps.DeleteFunc(q.uses, func(_ call, p grantUse) bool { return p.grant.ID == g.ID })
	}
	err := errors.Join(q.o.Recorder.Record(ctx, grantRecord(g, verdict, why), nil, nil), q.db.EndGrant(ctx, g))
	if err != nil {
		q.o.Logger.Error("end a grant", "component", "approval", "grant", g.ID, "err", err)
	}
}

// grantRecord returns the audit record of an event of a grant. Its profile is that under
// which the grant was given: production, since nobody is asked in development.
func grantRecord(g *Grant, verdict, why string) *record.Record {
	why = cmp.Or(why, g.Note)
	return &record.Record{
		Kind: record.KindGrant, Session: g.Session, Agent: g.Agent, Server: g.Server, Launch: g.Launch, Method: g.Method,
		Tool: g.Tool, Verdict: verdict, Rule: g.Rule, Facts: g.Facts, Reason: strings.TrimSpace(Describe(g) + ". " + why),
		Approval: g.Approval, Grant: g.ID, Decider: g.Decider, Surface: g.Surface, Level: string(levelOf(g.Level)),
		Profile: string(gate.Production),
	}
}

// Describe returns a short description of what a grant covers.
func Describe(g *Grant) string {
	what := "with any arguments"
	switch g.Match {
	case MatchArgs:
		what = "with the same arguments"
	case MatchVerb, MatchProgram:
		what = "of " + strings.TrimSpace(g.Grain.Program+" "+g.Grain.Verb) + " in " + g.Grain.Folder + " and below"
	case MatchSome:
		what = "with the same " + strings.Join(slices.Sorted(maps.Keys(g.Members)), ", ")
	}
	where := "everywhere"
	switch g.Scope {
	case InSession:
		where = "in the session"
	case InProject:
		where = "in " + g.Project
	}
	often := "any number of calls"
	if g.Times > 0 {
		often = fmt.Sprintf("%d calls", g.Times)
	}
	return fmt.Sprintf("%s %s, %s, until %s", often, what, where, g.Expires.Format(time.RFC3339))
}

// Grants returns the grants in force, oldest first; with all, also the newest ended ones,
// newest first.
func (q *Queue) Grants(ctx context.Context, all bool) ([]Grant, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	var list []Grant
	for _, v := range q.inForce() {
		list = append(list, v.g)
	}
	if !all {
		return list, nil
	}
	ended, err := q.db.EndedGrants(ctx, maxListedEnded)
	return append(list, ended...), err
}

// inForce returns the grants in force, oldest first.
func (q *Queue) inForce() []*given {
	return slices.SortedFunc(maps.Values(q.grants), func(a, b *given) int {
		return cmp.Compare(store.ParseGrantID(a.g.ID), store.ParseGrantID(b.g.ID))
	})
}

// Revoke ends a grant on behalf of by. ErrNotFound means that no grant with that id is in
// force.
func (q *Queue) Revoke(ctx context.Context, id, by string) (Grant, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Grant{}, errStopping
	}
	q.expireDue()
	v := q.grants[id]
	if v == nil {
		return Grant{}, fmt.Errorf("revoke %s: no grant with this id is in force: %w", id, gate.ErrNotFound)
	}
	q.endGrant(ctx, v, "revoked", "revoked by "+by)
	return v.g, nil
}

// usedUp is the reason for the end of a grant that was not revoked but used up.
const usedUp = "it has covered as many calls as it was given for"

// grantUse is a call that a grant has approved. It is submitted again if the daemon died
// before it was recorded.
type grantUse struct {
	grant   Grant
	subject []byte
}

// recallUses loads the uses of the grants in force and of those used up last.
func (q *Queue) recallUses(ctx context.Context, inForce []Grant) error {
	ended, err := q.db.EndedGrants(ctx, maxListedEnded)
	if err != nil {
		return err
	}
	for _, g := range slices.Concat(inForce, ended) {
		if !g.Ended.IsZero() && g.End != usedUp {
			continue
		}
		for _, u := range g.Uses {
			q.uses[call{u.Attachment, u.Seq}] = grantUse{g, u.Subject}
		}
	}
	return nil
}

// reuseGrant returns the grant that has approved this same call before. Such a call is counted
// once and may be forwarded once more. again returns nil if the call now has facts that
// the grant does not cover.
func (q *Queue) reuseGrant(asked *gate.Question, members map[string][]byte) *gate.Grant {
	key := call{asked.Call.Attachment, asked.Call.Seq}
	p, ok := q.uses[key]
	if !ok || !bytes.Equal(p.subject, asked.Subject[:]) || !sameThing(&p.grant, asked.Call) || asked.Call.Extent.IsBeyond(p.grant.Extent) || !q.admits(&p.grant, asked, members) {
		return nil
	}
	delete(q.uses, key)
	return used(&p.grant)
}

// used returns what the gate needs to know about a grant that approves a call.
func used(g *Grant) *gate.Grant {
	return &gate.Grant{ID: g.ID, Approval: g.Approval, Decider: g.Decider}
}

// Use returns the grant that approves a call that a person would otherwise be asked
// about; nil if there is none. It counts the use, on disk when it returns. A grant never
// covers ThoughtGate's own files, nor more destruction than was shown when it was given. A grant
// whose target now has another definition becomes void.
func (q *Queue) Use(ctx context.Context, asked *gate.Question) (*gate.Grant, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.grants)+len(q.uses) == 0 {
		return nil, nil
	}
	q.expireDue()
	members := digests(asked.Call)
	if g := q.reuseGrant(asked, members); g != nil {
		return g, nil
	}
	var smaller *Grant // covers the call, but not so much
	for _, v := range q.inForce() {
		g := &v.g
		if !sameThing(g, asked.Call) {
			continue
		}
		none := [32]byte{}
		if g.Definition != asked.Call.Definition {
			if g.Definition != none && asked.Call.Definition != none {
				q.endGrant(ctx, v, "void", "the definition of what it covers has changed")
			}
			continue
		}
		if !q.admits(g, asked, members) {
			continue
		}
		if asked.Call.Extent.IsBeyond(g.Extent) {
			smaller = g
			continue
		}
		u := store.Use{Attachment: asked.Call.Attachment, Seq: asked.Call.Seq, Subject: asked.Subject[:]}
		before := g.Uses
		if err := q.db.UseGrant(ctx, g, u); err != nil {
			return nil, err
		}
		for _, old := range before[:max(0, len(before)+1-len(g.Uses))] { // the grant no longer remembers these
			delete(q.uses, call{old.Attachment, old.Seq})
		}
		q.uses[call{u.Attachment, u.Seq}] = grantUse{*g, u.Subject}
		if g.Times > 0 && g.Used >= g.Times {
			q.endGrant(ctx, v, "used up", usedUp)
		}
		return used(g), nil
	}
	if smaller != nil {
		asked.Ruling.Reason += "; approved before (" + smaller.ID + ") when it destroyed less" + q.shownExtent(ctx, smaller)
	}
	return nil, nil
}

// shownExtent returns what was shown of the extent of a grant when it was given, after a colon; ""
// if that is not known any more.
func (q *Queue) shownExtent(ctx context.Context, g *Grant) string {
	given, _ := q.endedQuestion(ctx, g.Approval) // the old ones are removed
	for _, text := range given.Facts {
		if detail, ok := strings.CutPrefix(text, gate.FactDestroys+": "); ok {
			return ": " + detail
		}
	}
	return ""
}

// sameThing reports whether c calls what g is about.
func sameThing(g *Grant, c *gate.Call) bool {
	return c.Agent == g.Agent && c.Server == g.Server && c.Launch == g.Launch && c.Method == g.Method && c.Subject == g.Tool
}

// admits reports whether a call of the same thing is within the bounds of g: the same
// rule and workflow ask, both with unchanged text, at no higher level; it has no fact
// that was not shown; and it has the same place, the required arguments and the same
// other params. ThoughtGate's own files, calls without a session, and with other arguments what gate.Widens
// excludes can't be granted, see [Queue.terms]. They are checked here too, since the stored grant may have
// been altered.
func (q *Queue) admits(g *Grant, asked *gate.Question, members map[string][]byte) bool {
	c := asked.Call
	if levelOf(string(asked.Ruling.Level)).Stricter(levelOf(g.Level)) || asked.Ruling.Workflow != g.Workflow || asked.Ruling.Basis != g.Basis || !covers(g.Facts, asked.Facts) ||
		slices.ContainsFunc(asked.Facts, func(f gate.Fact) bool {
			return f.Name == gate.FactOurs || g.Match != MatchArgs && !gate.Widens(g.Server, f.Name)
		}) {
		return false
	}
	if c.Claimed && g.Scope != InSession {
		return false // any caller can claim an agent and a project to be covered
	}
	switch g.Scope {
	case InSession:
		if c.Session == "" || c.Session != g.Session {
			return false
		}
	case InProject: // without a session the folder is only tg-shim's claim
		if c.Session == "" || c.Project != g.Project {
			return false
		}
	}
	if IsGrain(g.Match) && !(g.Grain.Covers(c.Grain) && len(boundByGrain(members)) == len(g.Members)) {
		return false
	}
	return bytes.Equal(salted(g.Salt, ofBeside(members)), g.Beside) && equalMembers(g, members)
}

func equalMembers(g *Grant, members map[string][]byte) bool {
	for name, want := range g.Members {
		digest, ok := members[name]
		if name == "" {
			digest = ofArguments(members)
		}
		if !ok || !bytes.Equal(salted(g.Salt, digest), want) {
			return false
		}
	}
	return true
}
