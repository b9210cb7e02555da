package mcp

import (
	"bytes"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// announcement is the start of the item that [Announce] inserts.
const announcement = `{"type":"text","text":`

// Announce inserts text as a separate item at the start of the content of the tool result
// e in line. All other bytes stay the same; e is set from the new line. A result without
// content is returned unchanged.
func Announce(line []byte, e *wire.Envelope, text string) []byte {
	content, err := wire.Member(line, e.Result, "content")
	if err != nil || !content.Present() || line[content.Start] != '[' {
		return line
	}
	item := append(wire.AppendQuote([]byte(announcement), text), '}')
	if rest := bytes.TrimLeft(line[content.Start+1:content.End], " \t\r\n"); rest[0] != ']' {
		item = append(item, ',')
	}
	at := content.Start + 1
	longer, err := wire.Splice(line, wire.Edit{Span: wire.Span{Start: at, End: at}, With: item})
	if err != nil {
		return line
	}
	var again wire.Envelope
	if err := wire.Read(longer, wire.FromServer, &again); err != nil {
		return line
	}
	again.Modern = e.Modern
	*e = again
	return longer
}

// WithoutAnnouncement returns line, which contains the result e, without the item that [Announce]
// may have inserted. It reports false if there is no such item.
func WithoutAnnouncement(line []byte, e *wire.Envelope) ([]byte, bool) {
	content, err := wire.Member(line, e.Result, "content")
	if err != nil || !content.Present() || line[content.Start] != '[' {
		return nil, false
	}
	start := content.Start + 1
	rest, ok := bytes.CutPrefix(line[start:content.End], []byte(announcement+`"`))
	for ok && len(rest) > 2 && rest[0] != '"' { // skip the text
		if rest[0] == '\\' {
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`"}`)); !ok {
		return nil, false
	}
	rest = bytes.TrimPrefix(rest, []byte(","))
	return append(append(line[:start:start], rest...), line[content.End:]...), true
}
