package approval

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

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
