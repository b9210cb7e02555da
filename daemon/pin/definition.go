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
	// maxKept is how many bytes of a definition are kept, so that it can be
	// shown. Of a longer one only the digest is.
	maxKept = 64 << 10
	// maxName is how many bytes a name may have.
	maxName = 256
)

// definition is what a server says of a tool, prompt or template.
type definition struct {
	digest [sha256.Size]byte
	raw    []byte // on its way to disk; nil afterwards, and when it is not kept
	about
}

// about is what is known of a definition without looking at it again.
type about struct {
	Size        int             `json:"size"` // bytes
	Smells      []Smell         `json:"smells,omitempty"`
	Mentions    []string        `json:"mentions,omitempty"` // words in it that may be the names of tools, in lower case
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Destroys    bool            `json:"destroys,omitempty"` // the annotations say that it does, to one reader at least
}

// encode is a for the disk.
func (a *about) encode() ([]byte, error) { return json.Marshal(a) }

// decodeAbout reads what encode has written.
func decodeAbout(raw []byte) (a about, err error) {
	if len(raw) == 0 {
		return a, nil
	}
	err = json.Unmarshal(raw, &a)
	a.Destroys = a.Destroys || destructive(a.Annotations)
	return a, err
}

// fold is how names of tools are compared with words of a text.
func fold(name string) string { return strings.ToLower(name) }

// is reports whether d is other, to the byte; nil is no definition.
func (d *definition) is(other *definition) bool {
	return d != nil && other != nil && d.digest == other.digest
}

// definitions returns what the elements of a list say. What is known of the same
// bytes is not found out again; the rest takes time, and no lock is held over it.
func (s *sight) definitions(offered []gate.Offered) []*definition {
	defs := make([]*definition, len(offered))
	for i := range offered {
		defs[i] = &definition{digest: sha256.Sum256(offered[i].Raw)}
	}
	s.b.mu.RLock()
	for i := range offered {
		s.learned(thing{s.kind, offered[i].Name}, defs[i])
	}
	s.b.mu.RUnlock()
	budget := lookBudget
	for i, d := range defs {
		raw := offered[i].Raw
		if d.Size == 0 {
			d.about = sniff(offered[i].Name, raw, &budget)
		}
		if s.mode != config.PinOff && len(raw) <= maxKept {
			d.raw = bytes.Clone(raw)
		}
	}
	return defs
}

// learned fills in what is known of d already. b.mu is held.
func (s *sight) learned(t thing, d *definition) {
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
