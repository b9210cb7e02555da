package approval

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// describe makes of what the gate asks what a person is shown.
func describe(asked *gate.Question, now time.Time) Question {
	c, r := asked.Call, &asked.Ruling
	q := Question{
		State: store.StateOpen, Created: now.UTC().Truncate(resolution),
		Attachment: c.Attachment, Seq: c.Seq, Call: c.ID, Session: c.Session, Agent: c.Agent, Project: c.Project,
		Server: c.Server, Launch: c.Launch, Direction: gate.Direction(c.Side), Method: c.Method, Tool: c.Subject,
		Profile: string(c.Profile), Params: shown(c, r.Redact), Subject: asked.Subject,
		Reason: r.Reason, Rule: ruleOf(r), Workflow: r.Workflow, Surfaces: r.Surfaces, Level: string(levelOf(string(r.Level))), Validity: r.Validity,
		Basis: r.Basis, Definition: c.Definition, Members: digests(c),
	}
	for _, f := range asked.Facts {
		q.Facts = append(q.Facts, factText(f))
	}
	return q
}

// ruleOf names what asks, with its place: a rule, or a policy and the rule under
// which it was asked.
func ruleOf(r *gate.Ruling) string {
	switch {
	case r.By != "" && r.Rule != "":
		return "policy " + r.By + ", under " + r.Rule
	case r.By != "":
		return "policy " + r.By
	case r.Rule == "" && len(r.Policies) > 0:
		return "policy " + strings.Join(r.Policies, ", ")
	}
	return r.Rule
}

// digests are what a grant knows equal calls by: the SHA-256 over the raw bytes of
// each argument, and under the empty name those over all arguments and over what
// stands beside them, one behind the other. Other methods than tools have params in
// the place of arguments.
func digests(c *gate.Call) map[string][]byte {
	span := c.Envelope.Arguments
	whole := c.Arguments()
	if whole == nil {
		whole = c.Params()
	}
	all := digestsIn(c.Line, span, whole)
	beside := c.BesideDigest()
	all[""] = append(all[""], beside[:]...)
	return all
}

// digestsIn are digests of whole, and of the members of the object at span.
func digestsIn(line []byte, span wire.Span, whole []byte) map[string][]byte {
	sum := sha256.Sum256(whole)
	all := map[string][]byte{"": sum[:]}
	if !span.Present() {
		return all
	}
	// What can't be read was refused before anybody was asked; then there is
	// nothing to match.
	_ = wire.Members(line, span, func(name []byte, value wire.Span) error {
		sum := sha256.Sum256(value.Of(line))
		if len(name) > 0 {
			all[string(name)] = sum[:]
		}
		return nil
	})
	return all
}

// ofArguments and ofBeside take apart what digests has under the empty name. A
// question of a release that did not look at what stands beside the arguments has
// nothing of the second.
func ofArguments(members map[string][]byte) []byte {
	return members[""][:min(len(members[""]), sha256.Size)]
}

func ofBeside(members map[string][]byte) []byte {
	return members[""][min(len(members[""]), sha256.Size):]
}

// Admits reports whether a grant is for calls with these arguments, one raw JSON
// object, as far as they count for it.
func Admits(g *Grant, arguments []byte) bool {
	return equalMembers(g, digestsIn(arguments, wire.Span{End: len(arguments)}, arguments))
}

// shown is the params of a call without the members of its arguments that are
// not to be shown; where it has none the params stand in their place. The subject is that of the whole: a yes covers what is hidden
// too, and the workflow says that it does.
func shown(c *gate.Call, redact []string) []byte {
	params := c.Params()
	if params == nil {
		return []byte("{}")
	}
	if len(redact) == 0 {
		return params[:len(params):len(params)] // of the line, which waits as long: a long one is there once
	}
	masked := rawjson.Mask(params, c.InParams(redact), func([]byte) string { return "(not shown)" })
	if masked == nil {
		return []byte(`"(not shown: it could not be read)"`)
	}
	return masked
}

func factText(f gate.Fact) string {
	text := f.Name
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if f.Member != "" {
		text += " (" + f.Member + ")"
	}
	return text
}

const (
	// longestPreview is how much of a question's params a list shows, in bytes: many
	// of them have to go into one message.
	longestPreview = 4 << 10
	longestShown   = 256 // of a string or number in a preview
)

// preview returns params, JSON, in short: long strings and numbers are cut, and say how
// long they are, and what comes after longestPreview is left out.
func preview(params []byte) []byte {
	if len(params) <= longestPreview {
		return params
	}
	var out bytes.Buffer
	anyhow := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	from, to := jsontext.NewDecoder(bytes.NewBuffer(params), anyhow...), jsontext.NewEncoder(&out, anyhow...)
	for to.OutputOffset() < longestPreview {
		token, err := from.ReadToken()
		if err != nil {
			break
		}
		if text := token.String(); len(text) > longestShown {
			token = jsontext.String(fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:longestShown], ""), len(text)))
		}
		if to.WriteToken(token) != nil {
			break
		}
	}
	for to.StackDepth() > 0 {
		kind, n := to.StackIndex(to.StackDepth())
		end := jsontext.EndArray
		if kind == '{' {
			if end = jsontext.EndObject; n%2 == 1 {
				_ = to.WriteToken(jsontext.String("…")) // can't fail: a value is due
			}
		}
		if to.WriteToken(end) != nil {
			break
		}
	}
	return bytes.TrimSpace(out.Bytes())
}

// shorten leaves of long params their beginnings, and of short ones a copy: what waits
// holds the line of the call once, and what was parked holds none. All of them are on
// disk, where an open question always is.
func (e *entry) shorten() {
	whole := e.q.Params
	e.params = sha256.Sum256(whole)
	if short := preview(whole); len(short) < len(whole) {
		e.q.Params, e.q.ParamsBytes = short, len(whole)
		return
	}
	e.q.Params = bytes.Clone(whole)
}

// whole is an open question as people see it, with all of its params. q.mu is held.
func (q *Queue) whole(ctx context.Context, e *entry) (Question, error) {
	asked := e.shown()
	if asked.ParamsBytes == 0 {
		return asked, nil
	}
	kept, err := q.db.Question(ctx, asked.ID)
	if err != nil {
		return Question{}, err
	}
	if sha256.Sum256(kept.Params) != e.params {
		return Question{}, fmt.Errorf("read %s: what state.db has of its call is not what was asked about; deny it, and look who writes there: %w", asked.ID, gate.ErrChanged)
	}
	asked.Params, asked.ParamsBytes = kept.Params, 0
	return asked, nil
}
