package mcp

import (
	"bytes"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Announce returns the result e of a tool call in line with text in an item of its
// own before the content, every other byte being as it was; e is read anew from
// it. A result without content comes back as it is.
func Announce(line []byte, e *wire.Envelope, text string) []byte {
	content, err := wire.Member(line, e.Result, "content")
	if err != nil || !content.Present() || line[content.Start] != '[' {
		return line
	}
	item := append(wire.AppendQuote([]byte(`{"type":"text","text":`), text), '}')
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
