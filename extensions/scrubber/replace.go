package main

import (
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// replace returns the edits of result that put the names of rules in place of
// what was found, and how often each rule did. Both pieces and finds are in
// order; a find that goes over several strings is replaced in each.
func replace(result []byte, pieces []piece, found []find) ([]wire.Edit, map[string]int) {
	var edits []wire.Edit
	counts := map[string]int{}
	for _, f := range found {
		counts[f.rule]++
	}
	for _, p := range pieces {
		for len(found) > 0 && found[0].end <= p.at {
			found = found[1:]
		}
		var within []find
		for _, f := range found {
			if f.start >= p.at+len(p.text) {
				break
			}
			within = append(within, find{max(f.start-p.at, 0), min(f.end-p.at, len(p.text)), f.rule})
		}
		if len(within) == 0 {
			continue
		}
		if p.blob != nil {
			edits = append(edits, wire.Edit{Span: wire.Span{Start: p.start + 1, End: p.end - 1}, With: encoded(p, within)})
			continue
		}
		at := offsets(result[p.start:p.end])
		for _, f := range within {
			span := wire.Span{Start: p.start + at[f.start], End: p.start + at[f.end]}
			edits = append(edits, wire.Edit{Span: span, With: []byte(mark(f.rule))})
		}
	}
	return edits, counts
}

// mark is what stands in the place of a secret. Rules have names that JSON has
// no escapes for.
func mark(rule string) string { return "[redacted: " + rule + "]" }

// encoded is the content of a blob with its secrets replaced, in base64.
func encoded(p piece, within []find) []byte {
	var b strings.Builder
	at := 0
	for _, f := range within {
		b.WriteString(p.text[at:f.start])
		b.WriteString(mark(f.rule))
		at = f.end
	}
	b.WriteString(p.text[at:])
	return p.blob.AppendEncode(nil, []byte(b.String()))
}
