package facts

import (
	"bytes"
	"context"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Forwarded records that c was forwarded to its server: its destinations are no longer new
// places.
func (f *Finder) Forwarded(c *gate.Call) {
	if c.Method != "tools/call" {
		return
	}
	l := f.look(context.Background(), c) // c has been examined before, so this takes no longer than that
	defer f.looked(l)
	l.startRecall(false)
	r := l.recall
	if r == nil {
		return
	}
	r.memory.recordKey(&r.memory.used, r.tool)
	if !r.mayStillSend() {
		return
	}
	l.recallOnly = true
	l.json(c.Arguments())
	l.walkBeside()
	if r.sends {
		for _, to := range r.destinations() {
			r.memory.recordKey(&r.memory.sent, to.key)
		}
	}
}

// mayStillSend reports whether the call sends, or its arguments may show that it does.
func (r *recall) mayStillSend() bool {
	if r.sends || r.deed == acts {
		return r.sends
	}
	c := r.look.call
	params := c.Envelope.Params.Of(c.Line)
	if params == nil {
		params = c.Arguments()
	}
	parts := []string{"ethod", "ETHOD", "erb", "ERB", `\`} // of the words in methodNames, or an escape
	return slices.ContainsFunc(parts, func(part string) bool { return bytes.Contains(params, []byte(part)) })
}
