package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// sealLen is the length of `,"crc":"xxxxxxxx"}`.
const sealLen = len(`,"crc":"`) + 8 + len(`"}`)

var (
	recordPrefix = []byte(`{"v":`)
	valuesPrefix = []byte(`{"values":`)
)

// Parse reads a record from its line, without the newline. Members it does not
// know are skipped, since a later version may write more. A line whose checksum
// is wrong, or that is no record as Append writes them, is an error.
func Parse(line []byte) (Record, error) {
	var r Record
	if err := sealed(line); err != nil {
		return r, err
	}
	if !utf8.Valid(line) {
		return r, errors.New("is not valid UTF-8")
	}
	c := cursor{line: line, at: 1}
	fields := reflect.ValueOf(&r).Elem()
	for c.next() {
		field, ok := fieldOf[string(c.name)]
		if !ok {
			c.skip()
			continue
		}
		switch to := fields.Field(field).Addr().Interface().(type) {
		case *string:
			*to = c.text()
		case *Kind:
			*to = Kind(c.text())
		case *time.Time:
			*to = c.time()
		case *int:
			*to = int(c.number())
		case *uint64:
			*to = c.number()
		case *int64:
			*to = c.signed()
		case *bool:
			*to = c.bool()
		case *[]string:
			*to = c.list()
		case **Peer:
			*to = c.peer()
		}
	}
	if c.err != nil {
		return Record{}, fmt.Errorf("is not a record (byte %d): %w", c.at, c.err)
	}
	return r, nil
}

// sealed checks that line begins as a record does and ends with the checksum of
// what stands before.
func sealed(line []byte) error {
	if !bytes.HasPrefix(line, recordPrefix) || len(line) < len(recordPrefix)+sealLen {
		return errors.New("is not a record")
	}
	body := line[:len(line)-sealLen]
	var want [sealLen]byte
	if !bytes.Equal(appendSeal(want[:0], crc32.Checksum(body, castagnoli)), line[len(body):]) {
		return errors.New("is damaged: its checksum is wrong")
	}
	return nil
}

// sound reports whether line, whose checksum is right, is one JSON object as a record is written: without
// blanks, each name once. It tells what jsontext.Value.IsValid does, at a third
// of the cost, which is most of the cost of verifying a log.
func sound(line []byte) bool {
	c := cursor{line: line, at: 1}
	var room [64][]byte
	names := room[:0]
	for c.next() {
		for _, name := range names {
			if bytes.Equal(name, c.name) {
				return false
			}
		}
		names = append(names, c.name)
		c.check()
	}
	return c.err == nil && utf8.Valid(line) && (!c.halves || jsontext.Value(line).IsValid())
}

// Peek returns what can be told of a record at a glance: its seq and its time
// as it is written, which sorts as text. It is false for a line that is damaged
// or no record.
func Peek(line []byte) (seq uint64, at []byte, ok bool) {
	if sealed(line) != nil {
		return 0, nil, false
	}
	h, ok := readHeader(line)
	return h.seq, h.time, ok
}

// IsValues reports whether line is a line of values.
func IsValues(line []byte) bool { return bytes.HasPrefix(line, valuesPrefix) }

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

// ones has the lowest bit of each of eight bytes, tops the highest.
const ones, tops = 0x0101010101010101, 0x8080808080808080

// stops has the top bit of the first of eight bytes that is a quote, a backslash or a
// control character, and none when there is none. Other bits are noise.
func stops(x uint64) uint64 {
	quote, slash := x^ones*'"', x^ones*'\\'
	return (x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash
}

// special returns where in line, from at on, the next byte stands that the search
// for the end of a string stops at: a quote, a backslash or a control character. It
// is the length of line when there is none. Eight bytes are looked at together.
func special(line []byte, at int) int {
	for ; at+8 <= len(line); at += 8 {
		// The lowest of these bits is right; one above it may not be.
		if found := stops(binary.LittleEndian.Uint64(line[at:])) & tops; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for ; at < len(line); at++ {
		if b := line[at]; b < ' ' || b == '"' || b == '\\' {
			return at
		}
	}
	return at
}

// quoted returns the next string as it is written, quotes included.
func (c *cursor) quoted() []byte {
	start := c.at
	if !c.take('"') {
		c.fail("a string is missing")
		return nil
	}
	for {
		c.at = special(c.line, c.at)
		switch {
		case c.at >= len(c.line):
			c.fail("a string does not end")
			return nil
		case c.line[c.at] == '"':
			c.at++
			return c.line[start:c.at]
		case c.line[c.at] == '\\':
			c.escape()
		default:
			c.fail("a control character stands in a string")
			return nil
		}
	}
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

func (c *cursor) text() string { return string(c.plain()) }

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
	const most = 19 // digits that always fit
	n, start := uint64(0), c.at
	for c.at < len(c.line) && c.at-start < most && c.line[c.at] >= '0' && c.line[c.at] <= '9' {
		n, c.at = n*10+uint64(c.line[c.at]-'0'), c.at+1
	}
	if c.at > start && c.at < len(c.line) && (c.line[c.at] == ',' || c.line[c.at] == '}') && (c.line[start] != '0' || c.at == start+1) {
		return n
	}
	c.at = start
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
	case bytes.HasPrefix(c.line[c.at:], literalTrue):
		c.at += len(literalTrue)
	case b == '[' && c.texts():
	default:
		c.skip()
	}
}

var literalTrue = []byte("true")

// texts passes over a list of texts. It stays where it is, and is false, when that
// is something else.
func (c *cursor) texts() bool {
	start := c.at
	c.at++
	for !c.take(']') {
		if c.at > start+1 && !c.take(',') || c.at == len(c.line) || c.line[c.at] != '"' {
			c.at = start
			return false
		}
		c.quoted()
		if c.err != nil {
			return true
		}
	}
	return true
}
