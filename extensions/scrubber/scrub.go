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
	// mostSecrets is how many different secrets a result may hold. One with more
	// is a list of them.
	mostSecrets = 2000
	// mostOut is how long a result may be that is handed back, in bytes: a frame
	// to the gate has at most 4 MiB.
	mostOut = 4<<20 - 1<<10
)

// scrub returns result with what it holds of secrets replaced, and how many were
// replaced by which rules; none when there are none. An error says why an agent
// must not see the result.
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
	// A name that was replaced may now be one that its object has already.
	dec := jsontext.NewDecoder(bytes.NewBuffer(scrubbed), loose)
	if _, err := dec.ReadValue(); err != nil {
		return nil, counts, errors.New("the result holds secrets as names of members, which can't all be replaced")
	}
	return scrubbed, counts, nil
}

// join makes one text of all strings, as a file that holds them would be, and
// notes where each begins. A name stands before its value, since rules go by it.
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

// find returns the secrets of text, in order, none over another.
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
		// A word without digits may stand elsewhere as what it means.
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

// head is how much of a needle all looks for at first.
const head = 4

// all returns where the secrets stand in text, each wherever it does.
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

// apart sorts finds and joins those that lie over each other; the longer one
// names the rule.
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
