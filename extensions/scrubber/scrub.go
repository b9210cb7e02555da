package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// mostSecrets is the maximum number of different secrets in a result. A result with more is
	// a list of secrets.
	mostSecrets = 2000
	// mostOut is the maximum size of a returned result, in bytes: a frame to the gate has at
	// most 4 MiB.
	mostOut = 4<<20 - 1<<10
)

// scrub returns result with its secrets replaced, and the number of replacements of each rule.
// An error says why an agent must not see the result.
func (s settings) scrub(ctx context.Context, d *detector, result []byte) ([]byte, map[string]int, error) {
	if len(result) > s.limit {
		return nil, nil, fmt.Errorf("the result has %d bytes, and the scrubber looks through %d at most (its limit)", len(result), s.limit)
	}
	pieces, err := stringsOf(result)
	if err != nil {
		return nil, nil, err
	}
	text := join(pieces)
	found, err := s.find(ctx, d, text, pieces)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	edits, counts := replace(result, pieces, found)
	scrubbed, err := wire.Splice(result, edits...)
	if err != nil {
		return nil, counts, errors.New("secrets in the result could not be replaced")
	}
	if len(scrubbed) > mostOut {
		return nil, counts, fmt.Errorf("the result holds secrets, and is too long to be handed back without them: %d bytes, at most %d", len(scrubbed), mostOut)
	}
	// A replaced name may now be a duplicate in its object.
	dec := jsontext.NewDecoder(bytes.NewBuffer(scrubbed), loose)
	if _, err := dec.ReadValue(); err != nil {
		return nil, counts, errors.New("the result holds secrets as names of members, which can't all be replaced")
	}
	return scrubbed, counts, nil
}

// join joins all strings into one text, as if they were in a file, and sets their offsets. A
// name precedes its value, since rules use it.
func join(pieces []piece) string {
	var b strings.Builder
	for i := range pieces {
		p := &pieces[i]
		p.at = b.Len()
		b.WriteString(p.text)
		switch {
		case p.isName:
			b.WriteString(`: "`)
		case p.name != "":
			b.WriteString("\"\n")
		default:
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// find returns the secrets of text, in order and without overlaps.
func (s settings) find(ctx context.Context, d *detector, text string, pieces []piece) ([]find, error) {
	needles, err := d.needles(ctx, text)
	if err != nil {
		return nil, err
	}
	found := ours(text)
	for _, p := range pieces {
		if !p.isName && p.blob == nil && named(p.name, p.text) {
			found = append(found, find{p.at, p.at + len(p.text), memberName})
		}
	}
	found = slices.DeleteFunc(found, func(f find) bool { return s.allows(text[f.start:f.end]) })
	for _, f := range found {
		// A word without digits may occur elsewhere with its usual meaning.
		secret := text[f.start:f.end]
		if _, known := needles[secret]; !known && len(secret) >= everywhere && strings.ContainsAny(secret, "0123456789") {
			needles[secret] = needle{secret, secret, f.rule}
		}
	}
	maps.DeleteFunc(needles, func(_ string, n needle) bool { return s.allows(n.secret) })
	if len(needles) > mostSecrets {
		return nil, fmt.Errorf("the result holds %d different secrets", len(needles))
	}
	return apart(append(found, all(text, needles)...)), nil
}

// head is the length of the prefix by which all finds needles.
const head = 4

// all returns every occurrence of the needles in text.
func all(text string, needles map[string]needle) []find {
	heads := map[[head]byte][]needle{}
	for _, n := range needles {
		if len(n.find) >= head {
			first := [head]byte([]byte(n.find[:head]))
			heads[first] = append(heads[first], n)
		}
	}
	if len(heads) == 0 {
		return nil
	}
	var found []find
	for i := 0; i+head <= len(text); i++ {
		for _, n := range heads[[head]byte{text[i], text[i+1], text[i+2], text[i+3]}] {
			if strings.HasPrefix(text[i:], n.find) {
				start := i + strings.LastIndex(n.find, n.secret)
				found = append(found, find{start, start + len(n.secret), n.rule})
			}
		}
	}
	return found
}

// apart sorts finds and joins those that overlap; the longer one determines the rule.
func apart(found []find) []find {
	slices.SortFunc(found, func(a, b find) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.rule, b.rule))
	})
	var out []find
	for _, f := range found {
		if last := len(out) - 1; last >= 0 && f.start < out[last].end {
			if f.end-f.start > out[last].end-out[last].start {
				out[last].rule = f.rule
			}
			out[last].end = max(out[last].end, f.end)
			continue
		}
		out = append(out, f)
	}
	return out
}
