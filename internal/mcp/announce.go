package mcp

import (
	"bytes"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// announcement is how the item of [Announce] begins.
const announcement = `{"type":"text","text":`

// Announce returns the result e of a tool call in line with text in an item of its
// own before the content, every other byte being as it was; e is read anew from
// it. A result without content comes back as it is.
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

// Unannounced returns line, of which e is the result, without what [Announce] may have
// put in. It is false where there is nothing like that.
func Unannounced(line []byte, e *wire.Envelope) ([]byte, bool) {
	content, err := wire.Member(line, e.Result, "content")
	if err != nil || !content.Present() || line[content.Start] != '[' {
		return nil, false
	}
	start := content.Start + 1
	rest, ok := bytes.CutPrefix(line[start:content.End], []byte(announcement+`"`))
	for ok && len(rest) > 2 && rest[0] != '"' { // of the text
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
