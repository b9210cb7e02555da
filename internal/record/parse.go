package record

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
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
