package main

import (
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// replace returns the edits that replace the finds in result with the names of their rules, and
// the number of finds of each rule. pieces and found must be sorted. A find across several
// strings is replaced in each.
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

// mark returns the replacement of a secret. Names of rules need no escapes in JSON.
func mark(rule string) string { return "[redacted: " + rule + "]" }

// encoded returns the base64 of a blob with its secrets replaced.
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
