package jsonc

import (
	"bytes"

	"github.com/tailscale/hujson"
)

// tooDeep returns the offset at which text nests past MaxDepth, or -1. It comes
// before the parser, which recurses. Up to the first thing that the parser
// refuses, both see the same strings and comments.
func tooDeep(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '/':
			i = commentEnd(text, i) - 1
		case '{', '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// stringEnd returns the offset past the string that begins at i, or the end of
// text when it has no end.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// commentEnd returns the offset past the comment that begins at i. When none
// begins there it is that of the next byte.
func commentEnd(text []byte, i int) int {
	end := ""
	switch {
	case bytes.HasPrefix(text[i:], []byte("//")):
		end = "\n"
	case bytes.HasPrefix(text[i:], []byte("/*")):
		end = "*/"
	default:
		return i + 1
	}
	n := bytes.Index(text[i+2:], []byte(end))
	if n < 0 {
		return len(text)
	}
	return i + 2 + n + len(end)
}

// check holds v and all in it against the syntax.
func (p *parser) check(v *hujson.Value) error {
	if err := p.checkExtra(v.BeforeExtra, v.StartOffset-len(v.BeforeExtra)); err != nil {
		return err
	}
	if err := p.checkExtra(v.AfterExtra, v.EndOffset); err != nil {
		return err
	}
	switch t := v.Value.(type) {
	case *hujson.Object:
		for i := range t.Members {
			if err := p.check(&t.Members[i].Name); err != nil {
				return err
			}
			if err := p.check(&t.Members[i].Value); err != nil {
				return err
			}
		}
		if n := len(t.Members); n > 0 {
			return p.checkEnd(&t.Members[n-1].Value, t.AfterExtra, v.EndOffset-1)
		}
		return p.checkExtra(t.AfterExtra, v.EndOffset-1-len(t.AfterExtra))
	case *hujson.Array:
		for i := range t.Elements {
			if err := p.check(&t.Elements[i]); err != nil {
				return err
			}
		}
		if n := len(t.Elements); n > 0 {
			return p.checkEnd(&t.Elements[n-1], t.AfterExtra, v.EndOffset-1)
		}
		return p.checkExtra(t.AfterExtra, v.EndOffset-1-len(t.AfterExtra))
	}
	return nil
}

// checkEnd looks at what stands between the last value of an object or array
// and its closing bracket. The parser leaves an AfterExtra at the value, if only
// an empty one, when a comma follows.
func (p *parser) checkEnd(last *hujson.Value, after hujson.Extra, closing int) error {
	if last.AfterExtra != nil && !p.syntax.TrailingCommas {
		return p.errorAt(last.EndOffset+len(last.AfterExtra), "a comma after the last value, which this file's reader does not take")
	}
	return p.checkExtra(after, closing-len(after))
}

func (p *parser) checkExtra(extra hujson.Extra, offset int) error {
	if i := bytes.IndexByte(extra, '/'); i >= 0 && !p.syntax.Comments {
		return p.errorAt(offset+i, "a comment, which this file's reader does not take")
	}
	return nil
}
