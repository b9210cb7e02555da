package trust

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// textOf decodes raw if it is a JSON string, and returns nil otherwise.
func textOf(raw []byte) *string {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return &text
}

// diffRoom returns how many columns remain for text after a sign.
func (a *app) diffRoom() int { return ui.Behind(4, a.Width()) }

// writeValue writes a JSON value with a sign before each line, so that no line of the value can
// be mistaken for tgctl's own.
func (a *app) writeValue(b *strings.Builder, sign string, raw []byte) {
	if len(raw) == 0 {
		return
	}
	if text := textOf(raw); text != nil {
		a.writeLines(b, sign, strings.Split(*text, "\n"))
		return
	}
	for line := range strings.SplitSeq(string(display.JSON(raw, a.diffRoom())), "\n") {
		fmt.Fprintf(b, "  %s %s\n", sign, line)
	}
}

func (a *app) writeLines(b *strings.Builder, sign string, lines []string) {
	for _, line := range lines {
		for _, part := range display.Wrap(display.Text(line), a.diffRoom()) {
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %s %s", sign, part), " ") + "\n")
		}
	}
}

// writeTexts writes two texts without their common first and last lines.
func (a *app) writeTexts(b *strings.Builder, before, after string) {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	head, tail := alike(old, now)
	same(b, head, "line", "lines")
	old, now = old[head:len(old)-tail], now[head:len(now)-tail]
	if len(old) == 1 && len(now) == 1 {
		a.writeLine(b, old[0], now[0])
	} else {
		a.writeLines(b, "-", old)
		a.writeLines(b, "+", now)
	}
	same(b, tail, "line", "lines")
}

// alike returns how many elements two lists have in common at the beginning and at the end.
func alike[T comparable](a, b []T) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// keptAround is how many bytes of a long line are shown on each side of a difference.
const keptAround = 60

// writeLine writes the old and the new line, without long common parts at the beginning and
// end.
func (a *app) writeLine(b *strings.Builder, old, now string) {
	head, tail := alike([]byte(old), []byte(now))
	head = atWord(old, head-keptAround)
	last := min(len(old), len(old)-tail+keptAround)
	for last < len(old) && !utf8.RuneStart(old[last]) {
		last++
	}
	tail = len(old) - last
	same(b, head, "byte", "bytes")
	a.writeLines(b, "-", []string{old[head : len(old)-tail]})
	a.writeLines(b, "+", []string{now[head : len(now)-tail]})
	same(b, tail, "byte", "bytes")
}

// atWord returns the beginning of a word at or shortly before at in s. If there is none, it
// returns a position that does not split a character.
func atWord(s string, at int) int {
	at = max(0, min(at, len(s)))
	for i := at; i > 0 && i > at-keptAround/2; i-- {
		if s[i-1] == ' ' {
			return i
		}
	}
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// same writes how much is omitted because it is unchanged.
func same(b *strings.Builder, n int, one, many display.Safe) {
	if n > 0 {
		fmt.Fprintf(b, "    … %s unchanged\n", ui.Plural(n, one, many))
	}
}
