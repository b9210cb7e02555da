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

// Parse decodes a record from its line, without the newline. Unknown members are skipped,
// since a later version may add some. It fails if the checksum is wrong or the line is
// not a record in the form that Append writes.
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

// sealed checks that line begins like a record and ends with the checksum of the bytes
// before it.
func sealed(line []byte) error {
	if !bytes.HasPrefix(line, recordPrefix) || len(line) < len(recordPrefix)+sealLen {
		return errors.New("is not a record")
	}
	body := line[:len(line)-sealLen]
	var want [sealLen]byte
	if !bytes.Equal(appendSeal(want[:0], crc32.Checksum(body, castagnoli)), line[len(body):]) {
		return errors.New("is corrupt: its checksum is wrong")
	}
	return nil
}

// sound reports whether line, whose checksum was verified, is one JSON object in the form
// of a record: no blanks, no duplicate names. It gives the same result as
// jsontext.Value.IsValid at a third of the cost, which dominates the verification of a
// log.
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

// Peek returns the seq of a record and its time as written, which sorts as text. It
// reports false if line is damaged or not a record.
func Peek(line []byte) (seq uint64, at []byte, ok bool) {
	if sealed(line) != nil {
		return 0, nil, false
	}
	h, ok := readHeader(line)
	return h.seq, h.time, ok
}

// IsValues reports whether line is a values line.
func IsValues(line []byte) bool { return bytes.HasPrefix(line, valuesPrefix) }

// cursor iterates over the members of a line. It keeps the first error.
type cursor struct {
	line []byte
	at   int
	name []byte
	err  error

	halves bool // a surrogate escape was seen
}

// next reads the name of the next member. It returns false after the last member and
// after an error.
func (c *cursor) next() bool {
	if c.err != nil {
		return false
	}
	switch {
	case c.at > 1 && c.take('}'):
		if c.at != len(c.line) {
			c.fail("there is text after the object")
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

// ones has the lowest bit of each of eight bytes set, tops the highest.
const ones, tops = 0x0101010101010101, 0x8080808080808080

// stops sets the top bit of the first of eight bytes that is a quote, a backslash or a
// control character. If there is no such byte, no top bit is set. All other bits are
// undefined.
func stops(x uint64) uint64 {
	quote, slash := x^ones*'"', x^ones*'\\'
	return (x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash
}

// special returns the index, from at on, of the next quote, backslash or control
// character in line; len(line) if there is none. It examines eight bytes at once.
func special(line []byte, at int) int {
	for ; at+8 <= len(line); at += 8 {
		// The lowest of these bits is exact; a higher one may not be.
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

// quoted returns the next string as written, including quotes.
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
			c.fail("a string contains a control character")
			return nil
		}
	}
}

// escape skips an escape sequence. Surrogates are left to jsontext, which checks pairs.
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

// word returns the next number or literal as written.
func (c *cursor) word() string {
	start := c.at
	for c.at < len(c.line) && c.line[c.at] != ',' && c.line[c.at] != '}' {
		c.at++
	}
	return string(c.line[start:c.at])
}

func (c *cursor) number() uint64 {
	const most = 19 // this many digits always fit
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
	text := c.text()
	t, err := time.Parse(time.RFC3339, text) // several times faster than with timeLayout
	if err != nil || len(text) != len(timeLayout) || text[len("2006-01-02T15:04:05")] != '.' || text[len(text)-1] != 'Z' {
		c.fail("a time is malformed")
	}
	return t
}

// skip skips the value of an unknown member.
func (c *cursor) skip() {
	d := jsontext.NewDecoder(bytes.NewReader(c.line[c.at:]))
	if err := d.SkipValue(); err != nil {
		c.fail("a value is malformed")
		return
	}
	c.at += int(d.InputOffset())
}

// check checks and skips the value of any member.
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

// texts skips a list of strings. If the value is something else, it reports false and
// does not move.
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
