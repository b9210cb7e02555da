package relay

import (
	"encoding/binary"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// codec encodes or decodes the fields of an event: each event lists its fields once for both.
// The input was written by a previous daemon, or by another process that could reach its
// memory.
type codec struct {
	b       []byte // encoded so far, or still to be decoded
	reading bool
	err     error // of decoding; all later fields are zero
}

func (c *codec) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: a journal entry has %s", mapping.ErrCorrupt, what)
	}
	c.b = nil
}

// number codes a number from 0 to most.
func (c *codec) number(v *uint64, most uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 || n > most {
		c.fail("an invalid number")
		*v = 0
		return
	}
	*v, c.b = n, c.b[size:]
}

// flag codes a bool.
func (c *codec) flag(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.number(&n, 1)
	*v = n == 1
}

// bytes codes a byte slice. A decoded slice belongs to the event.
func (c *codec) bytes(v *[]byte) {
	n := uint64(len(*v))
	c.number(&n, maxField)
	if !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	if n > uint64(len(c.b)) {
		c.fail("a length past its end")
		n = 0
	}
	*v = nil
	if n > 0 {
		*v = append([]byte(nil), c.b[:n]...)
	}
	c.b = c.b[n:]
}

// text codes a string.
func (c *codec) text(v *string) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, uint64(len(*v)))
		c.b = append(c.b, *v...)
		return
	}
	var b []byte
	c.bytes(&b)
	*v = string(b)
}
