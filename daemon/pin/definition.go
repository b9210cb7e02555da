package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const (
	// maxKept is the largest definition that is kept for display, in bytes. Of a larger one only
	// the digest is kept.
	maxKept = 64 << 10
	// maxName is the longest name, in bytes.
	maxName = 256
)

// definition is what a server says about a tool, prompt or template.
type definition struct {
	digest [sha256.Size]byte
	raw    []byte // nil if it is on disk or not kept
	about
}

// about is the result of examining a definition.
type about struct {
	Size        int             `json:"size"` // in bytes
	Suspicions  []Suspicion     `json:"smells,omitempty"`
	Mentions    []string        `json:"mentions,omitempty"` // words in it that may be names of tools, in lower case
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Destroys    bool            `json:"destroys,omitempty"` // the annotations say that it destroys, at least to some JSON readers
}

// decodeAbout decodes an about in its form on disk, JSON.
func decodeAbout(raw []byte) (a about, err error) {
	if len(raw) == 0 {
		return a, nil
	}
	err = json.Unmarshal(raw, &a)
	a.Destroys = a.Destroys || destructive(a.Annotations)
	return a, err
}

// fold returns name in the form in which names of tools are compared with words.
func fold(name string) string { return strings.ToLower(name) }

// is reports whether d and other have the same bytes. It is false if either is nil.
func (d *definition) is(other *definition) bool {
	return d != nil && other != nil && d.digest == other.digest
}

// definitions returns the definitions of a list's elements. The result of examining the same bytes
// before is reused. Examining takes time, so b.mu is not held for it.
func (s *sight) definitions(offered []gate.Offered) []*definition {
	defs := make([]*definition, len(offered))
	for i := range offered {
		defs[i] = &definition{digest: sha256.Sum256(offered[i].Raw)}
	}
	s.b.mu.RLock()
	for i := range offered {
		s.learned(definitionKey{s.kind, offered[i].Name}, defs[i])
	}
	s.b.mu.RUnlock()
	budget := lookBudget
	for i, d := range defs {
		raw := offered[i].Raw
		if d.Size == 0 {
			d.about = examineDefinition(offered[i].Name, raw, &budget)
		}
		if s.mode != config.PinOff && len(raw) <= maxKept {
			d.raw = bytes.Clone(raw)
		}
	}
	return defs
}

// learned copies to d what is already known about it. b.mu must be held.
func (s *sight) learned(t definitionKey, d *definition) {
	known := s.b.pinned(s.id, t).definitions()
	if o, ok := s.view.shown(t); ok {
		known = append(known, o.def)
	}
	for _, k := range known {
		if k.is(d) && k.Size > 0 {
			d.about = k.about
		}
	}
}
