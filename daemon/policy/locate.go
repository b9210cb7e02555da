package policy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Cedar's parser doesn't say where in a policy an expression stands, and a
// person wants to know. So the text of a policy is looked through a second time
// for what its expressions are told apart by: chains of members, in the order in
// which they are written. It is for messages only; nothing is decided by it.

// written is a chain as it was found in the text of a policy.
type written struct {
	chain
	at int // offset of the last member's name
}

// locator finds the chains of one policy in its text.
type locator struct {
	file   string
	text   []byte // of the whole file
	policy config.Place
	found  []written
}

// newLocator looks through the policy that begins at the offset start.
func newLocator(file string, text []byte, policy config.Place, start int) *locator {
	l := &locator{file: file, text: text, policy: policy}
	l.find(lex(text, start))
	return l
}

// place is where the nth of the policy's chains stands that read as c, or the
// policy itself.
func (l *locator) place(c chain, nth int) config.Place {
	for _, w := range l.found {
		if w.root != c.root || w.has != c.has || !slices.Equal(w.path, c.path) {
			continue
		}
		if nth == 0 {
			return placeAt(l.file, l.text, w.at)
		}
		nth--
	}
	return l.policy
}

// word is a token: a name, a string, or one character of punctuation.
type word struct {
	text   string
	quoted bool
	at     int
}

// lex splits the policy that begins at start into words.
func lex(text []byte, start int) []word {
	var words []word
	for i := start; i < len(text); i++ {
		switch b := text[i]; {
		case b == ';':
			return words
		case b == '"':
			end := stringEnd(text, i)
			words = append(words, word{unescaped(text[i:min(end+1, len(text))]), true, i})
			i = end
		case b == '/' && bytes.HasPrefix(text[i:], []byte("//")):
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return words
			}
			i += n
		case wordByte(b):
			begin := i
			for i+1 < len(text) && wordByte(text[i+1]) {
				i++
			}
			words = append(words, word{string(text[begin : i+1]), false, begin})
		case b > ' ':
			words = append(words, word{string(b), false, i})
		}
	}
	return words
}

// unescaped is what a quoted string says; one that Go can't read is not a name
// that anybody would mistype.
func unescaped(quoted []byte) string {
	if s, err := strconv.Unquote(string(quoted)); err == nil {
		return s
	}
	return strings.Trim(string(quoted), `"`)
}

// find collects the chains, with all that lead to them: of context.a.b it
// collects context.a and context.a.b.
func (l *locator) find(words []word) {
	for i := 0; i < len(words); i++ {
		if !isRoot(words, i) {
			continue
		}
		c, last := chain{root: words[i].text}, i
		var steps []written
		for {
			name, end := step(words, last)
			if name == nil {
				break
			}
			c.path = append(slices.Clip(c.path), name.text)
			steps = append(steps, written{c, name.at})
			last = end
		}
		// context has a.b asks for context.a, and then for context.a.b.
		asked := askedFor(words, last)
		l.found = append(l.found, steps...)
		for n, name := range asked {
			if n > 0 {
				l.found = append(l.found, steps...)
			}
			has := chain{c.root, append(slices.Clip(c.path), name.text), true}
			l.found = append(l.found, written{has, name.at})
			c.path = has.path
			steps = append(slices.Clip(steps), written{chain{c.root, has.path, false}, name.at})
			last = last + 2
		}
		i = max(i, last)
	}
}

// isRoot reports whether the word at i is a variable.
func isRoot(words []word, i int) bool {
	if w := words[i]; w.quoted || !slices.Contains([]string{"principal", "action", "resource", "context"}, w.text) {
		return false
	}
	before, after := "", ""
	if i > 0 && !words[i-1].quoted {
		before = words[i-1].text
	}
	if i+1 < len(words) && !words[i+1].quoted {
		after = words[i+1].text
	}
	return before != "@" && before != "." && before != ":" && after != ":"
}

// step returns the member that is named behind the word at i, and the index of
// the last word that names it; nil when there is none. A method is no member.
func step(words []word, i int) (name *word, end int) {
	is := func(j int, text string) bool { return j < len(words) && !words[j].quoted && words[j].text == text }
	switch {
	case is(i+1, ".") && i+2 < len(words) && !is(i+3, "("):
		return &words[i+2], i + 2
	case is(i+1, "[") && i+2 < len(words) && words[i+2].quoted && is(i+3, "]"):
		return &words[i+2], i + 3
	}
	return nil, i
}

// askedFor returns the members that are asked for by a has behind the word at i.
func askedFor(words []word, i int) []word {
	if i+2 >= len(words) || words[i+1].quoted || words[i+1].text != "has" {
		return nil
	}
	asked := []word{words[i+2]}
	for j := i + 2; ; {
		name, end := step(words, j)
		if name == nil || name.quoted {
			return asked
		}
		asked, j = append(asked, *name), end
	}
}
