package approval

import (
	"bytes"
	"context"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// usedUp is the end of a grant that nobody has taken back.
const usedUp = "it has let through as many calls as it was given for"

// past is a call that a grant let through. It comes again where the daemon has died
// before it was on record.
type past struct {
	grant   Grant
	subject []byte
}

// recallUses takes in what grants in force, and those that were used up last, have
// let through.
func (q *Queue) recallUses(ctx context.Context, inForce []Grant) error {
	ended, err := q.db.EndedGrants(ctx, listed)
	if err != nil {
		return err
	}
	for _, g := range slices.Concat(inForce, ended) {
		if !g.Ended.IsZero() && g.End != usedUp {
			continue
		}
		for _, u := range g.Uses {
			q.uses[call{u.Attachment, u.Seq}] = past{g, u.Subject}
		}
	}
	return nil
}

// again returns the grant that has let this very call through before, which is
// counted once and goes on for one more time; nil where more is true of the call by
// now than the grant covers.
func (q *Queue) again(asked *gate.Question, members map[string][]byte) *gate.Grant {
	key := call{asked.Call.Attachment, asked.Call.Seq}
	p, ok := q.uses[key]
	if !ok || !bytes.Equal(p.subject, asked.Subject[:]) || !sameThing(&p.grant, asked.Call) || !q.admits(&p.grant, asked, members) {
		return nil
	}
	delete(q.uses, key)
	return used(&p.grant)
}

// used is what the gate learns of a grant that lets a call through.
func used(g *Grant) *gate.Grant {
	return &gate.Grant{ID: g.ID, Approval: g.Approval, Decider: g.Decider}
}

// Use returns the grant that lets a call through which a person would be asked
// about, nil when there is none, and counts the use; on disk when it returns. It
// is never about what is our own. A grant under whose call another definition
// stands now is void from here on.
func (q *Queue) Use(ctx context.Context, asked *gate.Question) (*gate.Grant, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.grants)+len(q.uses) == 0 {
		return nil, nil
	}
	q.expireDue()
	members := digests(asked.Call)
	if g := q.again(asked, members); g != nil {
		return g, nil
	}
	for _, v := range q.inForce() {
		g := &v.g
		if !sameThing(g, asked.Call) {
			continue
		}
		none := [32]byte{}
		if g.Definition != asked.Call.Definition {
			if g.Definition != none && asked.Call.Definition != none {
				q.endGrant(ctx, v, "void", "the definition of what it is about has changed")
			}
			continue
		}
		if !q.admits(g, asked, members) {
			continue
		}
		u := store.Use{Attachment: asked.Call.Attachment, Seq: asked.Call.Seq, Subject: asked.Subject[:]}
		before := g.Uses
		if err := q.db.UseGrant(ctx, g, u); err != nil {
			return nil, err
		}
		for _, old := range before[:max(0, len(before)+1-len(g.Uses))] { // which the grant does not remember any more
			delete(q.uses, call{old.Attachment, old.Seq})
		}
		q.uses[call{u.Attachment, u.Seq}] = past{*g, u.Subject}
		if g.Times > 0 && g.Used >= g.Times {
			q.endGrant(ctx, v, "used up", usedUp)
		}
		return used(g), nil
	}
	return nil, nil
}

// sameThing reports whether c calls what g is about.
func sameThing(g *Grant, c *gate.Call) bool {
	return c.Agent == g.Agent && c.Server == g.Server && c.Launch == g.Launch && c.Method == g.Method && c.Subject == g.Tool
}

// admits reports whether a call of what g is about is within its bounds: asked
// about by the same rule in the same workflow, neither of which says anything else
// by now, at no higher level, with nothing true of it that was not shown, in the same place, with the
// arguments that must be equal, and with the same beside them. Of our own files and
// of what belongs to no session nobody can be given a grant, see [Queue.terms]; both
// are looked at here as well, since g may come from a file that somebody has altered.
func (q *Queue) admits(g *Grant, asked *gate.Question, members map[string][]byte) bool {
	c := asked.Call
	if levelOf(string(asked.Ruling.Level)).Stricter(levelOf(g.Level)) || asked.Ruling.Workflow != g.Workflow || asked.Ruling.Basis != g.Basis || !covers(g.Facts, asked.Facts) ||
		slices.ContainsFunc(asked.Facts, func(f gate.Fact) bool { return f.Name == "ours" }) {
		return false
	}
	if c.Claimed && g.Scope != InSession {
		return false // anybody can name an agent and a project to be covered
	}
	switch g.Scope {
	case InSession:
		if c.Session == "" || c.Session != g.Session {
			return false
		}
	case InProject: // without a session the folder is what the shim says
		if c.Session == "" || c.Project != g.Project {
			return false
		}
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
