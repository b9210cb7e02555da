package record

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// indexedFields are the members by which records are looked for.
var indexedFields = [...]string{"kind", "server", "tool", "verdict", "session"}

// indexed is what an index keeps of a record. It is read without making the record,
// which would be most of the cost of an index.
type indexed struct {
	seq   uint64
	time  time.Time
	words [len(indexedFields)][]byte // in the order of indexedFields; empty for none

	day     [len("2006-01-02T")]byte // of the record read last, and when it began
	morning time.Time
}

// read takes over what line says, which stays valid as long as line does. It tells
// what Parse does of every line that Append has written, and is false for one that
// is damaged.
func (x *indexed) read(line []byte) bool {
	if sealed(line) != nil || !utf8.Valid(line) {
		return false
	}
	x.seq, x.time = 0, time.Time{}
	clear(x.words[:])
	c := cursor{line: line, at: 1}
	for c.next() {
		switch string(c.name) {
		case "seq":
			x.seq = c.number()
		case "time":
			x.clock(&c)
		case "kind":
			x.words[0] = c.plain()
		case "server":
			x.words[1] = c.plain()
		case "tool":
			x.words[2] = c.plain()
		case "verdict":
			x.words[3] = c.plain()
		case "session":
			x.words[4] = c.plain()
		default:
			c.check()
		}
	}
	return c.err == nil && (!c.halves || jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)))
}

// clock reads a time. Most are of the day of the one before.
func (x *indexed) clock(c *cursor) {
	at := *c
	text := c.raw()
	if len(text) == len(timeLayout) && string(text[:len(x.day)]) == string(x.day[:]) {
		if since, ok := sinceMorning(text[len(x.day):]); ok {
			x.time = x.morning.Add(since)
			return
		}
	}
	if x.time = at.time(); at.err != nil {
		c.fail("a time is malformed")
		return
	}
	copy(x.day[:], text)
	x.morning = x.time.Truncate(24 * time.Hour)
}

// sinceMorning reads the second half of a time, as 15:04:05.000000Z.
func sinceMorning(text []byte) (time.Duration, bool) {
	const shape = "00:00:00.000000Z"
	if len(text) != len(shape) {
		return 0, false
	}
	var digits [len(shape)]time.Duration
	for i, b := range text {
		switch {
		case shape[i] == '0' && b >= '0' && b <= '9':
			digits[i] = time.Duration(b - '0')
		case shape[i] != b:
			return 0, false
		}
	}
	hours, minutes, seconds := digits[0]*10+digits[1], digits[3]*10+digits[4], digits[6]*10+digits[7]
	if hours > 23 || minutes > 59 || seconds > 59 {
		return 0, false
	}
	micros := time.Duration(0)
	for _, digit := range digits[9:15] {
		micros = micros*10 + digit
	}
	return hours*time.Hour + minutes*time.Minute + seconds*time.Second + micros*time.Microsecond, true
}

// plain is text, for a caller that keeps it no longer than the line.
func (c *cursor) plain() []byte {
	quoted := c.quoted()
	if c.err != nil {
		return nil
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		c.fail("a string is malformed")
	}
	return text
}
