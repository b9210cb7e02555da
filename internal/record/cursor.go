package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// cursor walks over the members of a line. The first error stays.
type cursor struct {
	line []byte
	at   int
	name []byte
	err  error

	halves bool // an escaped half of a character was seen
}

// next reads the name of the next member; it returns false after the last one
// or after an error.
func (c *cursor) next() bool {
	if c.err != nil {
		return false
	}
	switch {
	case c.at > 1 && c.take('}'):
		if c.at != len(c.line) {
			c.fail("something follows the object")
		}
		return false
	case c.at > 1 && !c.take(','):
		c.fail("a comma or the end is missing")
		return false
	}
	quoted := c.quoted()
	if bytes.IndexByte(quoted, '\\') >= 0 {
		c.fail("a name holds an escape")
	}
	if c.err == nil && !c.take(':') {
		c.fail("a colon is missing")
	}
	if c.err != nil {
		return false
	}
	c.name = quoted[1 : len(quoted)-1]
	return true
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = errors.New(what)
	}
}

func (c *cursor) take(b byte) bool {
	if c.at < len(c.line) && c.line[c.at] == b {
		c.at++
		return true
	}
	return false
}

// special holds the bytes at which the search for the end of a string stops.
var special = func() (table [256]bool) {
	for b := range byte(' ') {
		table[b] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

// quoted returns the next string as it is written, quotes included.
func (c *cursor) quoted() []byte {
	start := c.at
	if !c.take('"') {
		c.fail("a string is missing")
		return nil
	}
	for line, at := c.line, c.at; at < len(line); at++ {
		if !special[line[at]] {
			continue
		}
		c.at = at
		switch line[at] {
		case '"':
			c.at++
			return line[start:c.at]
		case '\\':
			c.escape()
			at = c.at - 1
		default:
			c.fail("a control character stands in a string")
			return nil
		}
	}
	c.at = len(c.line)
	c.fail("a string does not end")
	return nil
}

// escape passes over an escape sequence. Halves of characters are left to
// jsontext, which knows which may follow on which.
func (c *cursor) escape() {
	rest := c.line[c.at+1:]
	switch {
	case len(rest) > 0 && strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0:
		c.at += 2
	case len(rest) > 4 && rest[0] == 'u':
		var unit [2]byte
		if _, err := hex.Decode(unit[:], rest[1:5]); err != nil {
			c.fail("an escape is malformed")
		}
		c.halves = c.halves || unit[0]&0xf8 == 0xd8
		c.at += 6
	default:
		c.fail("an escape is malformed")
		c.at++
	}
}

func (c *cursor) text() string {
	quoted := c.quoted()
	if c.err != nil {
		return ""
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		c.fail("a string is malformed")
	}
	return string(text)
}

func (c *cursor) list() []string {
	var list []string
	if !c.take('[') {
		c.fail("a list is missing")
		return nil
	}
	if c.take(']') {
		return nil
	}
	for c.err == nil {
		list = append(list, c.text())
		if c.take(']') {
			return list
		}
		if !c.take(',') {
			c.fail("a list does not end")
		}
	}
	return nil
}

// word returns the next number or literal as it is written.
func (c *cursor) word() string {
	start := c.at
	for c.at < len(c.line) && c.line[c.at] != ',' && c.line[c.at] != '}' {
		c.at++
	}
	return string(c.line[start:c.at])
}

func (c *cursor) number() uint64 {
	word := c.word()
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || len(word) > 1 && word[0] == '0' {
		c.fail("a whole number is missing")
	}
	return n
}

func (c *cursor) signed() int64 {
	n, err := strconv.ParseInt(c.word(), 10, 64)
	if err != nil {
		c.fail("a whole number is missing")
	}
	return n
}

func (c *cursor) bool() bool {
	switch c.word() {
	case "true":
		return true
	case "false":
		return false
	}
	c.fail("true or false is missing")
	return false
}

func (c *cursor) time() time.Time {
	t, err := time.Parse(timeLayout, c.text())
	if err != nil {
		c.fail("a time is malformed")
	}
	return t
}

// skip passes over a value of a member that this version does not know.
func (c *cursor) skip() {
	d := jsontext.NewDecoder(bytes.NewReader(c.line[c.at:]))
	if err := d.SkipValue(); err != nil {
		c.fail("a value is malformed")
		return
	}
	c.at += int(d.InputOffset())
}

// check passes over a value of any member.
func (c *cursor) check() {
	if c.at == len(c.line) {
		c.fail("a value is missing")
		return
	}
	switch b := c.line[c.at]; {
	case b == '"':
		c.quoted()
	case b >= '1' && b <= '9':
		for c.at < len(c.line) && c.line[c.at] >= '0' && c.line[c.at] <= '9' {
			c.at++
		}
	default:
		c.skip()
	}
}
