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

// describe returns the question that a person is shown for asked.
func describe(asked *gate.Question, now time.Time) Question {
	c, r := asked.Call, &asked.Ruling
	q := Question{
		State: store.StateOpen, Created: now.UTC().Truncate(resolution),
		Attachment: c.Attachment, Seq: c.Seq, Call: c.ID, Session: c.Session, Agent: c.Agent, Project: c.Project,
		Server: c.Server, Launch: c.Launch, Direction: gate.Direction(c.Side), Method: c.Method, Tool: c.Subject,
		Profile: string(c.Profile), Params: shown(c, r.Redact), Subject: asked.Subject,
		Reason: r.Reason, Rule: ruleOf(r), Workflow: r.Workflow, Surfaces: r.Surfaces, Level: string(levelOf(string(r.Level))), Validity: r.Validity,
		Basis: r.Basis, Definition: c.Definition, Members: digests(c), Extent: c.Extent, Grain: c.Grain,
	}
	for _, f := range asked.Facts {
		q.Facts = append(q.Facts, factText(f))
	}
	return q
}

// ruleOf names what asks, with its position: a rule, or a policy and the rule under which
// it was evaluated.
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

// digests returns the digests by which a grant recognizes equal calls: the SHA-256 over
// the raw bytes of each argument, and under the empty name that over all arguments
// followed by that over the other params. For methods other than tools/call, the params
// replace the arguments.
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

// digestsIn returns the digests of whole and of the members of the object at span.
func digestsIn(line []byte, span wire.Span, whole []byte) map[string][]byte {
	sum := sha256.Sum256(whole)
	all := map[string][]byte{"": sum[:]}
	if !span.Present() {
		return all
	}
	// Unreadable arguments were refused before anybody was asked, so there is nothing to
	// match.
	_ = wire.Members(line, span, func(name []byte, value wire.Span) error {
		sum := sha256.Sum256(value.Of(line))
		if len(name) > 0 {
			all[string(name)] = sum[:]
		}
		return nil
	})
	return all
}

// ofArguments and ofBeside split the entry under the empty name of digests. In a question
// of a release that did not check the other params, the second part is empty.
func ofArguments(members map[string][]byte) []byte {
	return members[""][:min(len(members[""]), sha256.Size)]
}

func ofBeside(members map[string][]byte) []byte {
	return members[""][min(len(members[""]), sha256.Size):]
}

// Admits reports whether a grant matches these arguments, one raw JSON object.
func Admits(g *Grant, arguments []byte) bool {
	return equalMembers(g, digestsIn(arguments, wire.Span{End: len(arguments)}, arguments))
}

// shown returns the params of a call without the members that are not to be shown. redact
// names members of the arguments, or of the params if there are no arguments. The subject
// still covers the whole call: an approval includes what is hidden, and the workflow says
// so.
func shown(c *gate.Call, redact []string) []byte {
	params := c.Params()
	if params == nil {
		return []byte("{}")
	}
	if len(redact) == 0 {
		return params[:len(params):len(params)] // shares the memory of the line, which waits as long
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
	// longestPreview is the maximum size of a question's params in a list, in bytes,
	// since many of them must fit into one message.
	longestPreview = 4 << 10
	longestShown   = 256 // maximum of a string or number in a preview
)

// preview returns the JSON params in short: long strings and numbers are cut with their
// length, and everything after longestPreview is left out.
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
				_ = to.WriteToken(jsontext.String("…")) // can't fail: a value is expected
			}
		}
		if to.WriteToken(end) != nil {
			break
		}
	}
	return bytes.TrimSpace(out.Bytes())
}

// shorten keeps only the beginning of long params, and a copy of short ones, so that the
// params don't keep the line of the call in memory. The complete params of a waiting
// question are always on disk.
func (e *entry) shorten() {
	whole := e.q.Params
	e.params = sha256.Sum256(whole)
	if short := preview(whole); len(short) < len(whole) {
		e.q.Params, e.q.ParamsBytes = short, len(whole)
		return
	}
	e.q.Params = bytes.Clone(whole)
}

// whole returns a waiting question as people see it, with complete params. q.mu must be
// held.
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
		return Question{}, fmt.Errorf("read %s: its call in state.db is not the one that was asked about; deny it, and find out which program writes to state.db: %w", asked.ID, gate.ErrChanged)
	}
	asked.Params, asked.ParamsBytes = kept.Params, 0
	return asked, nil
}
