// Package stream packs the records of an audit log into batches, as they travel to the
// engine of a fleet, and checks whether a stream of them is one log: nothing missing,
// nothing twice, and one history. It needs nothing but the stream.
package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	// MaxRecords is the maximum number of records of a batch.
	MaxRecords = 256
	// MaxPacked is the maximum size of a packed batch in bytes; a stock engine takes messages
	// of 1 MiB.
	MaxPacked = 1<<20 - 16<<10

	// usualRaw is the size in bytes, before packing, from which a batch takes no more records;
	// maxRaw is what a single record may have beyond that.
	usualRaw = 768 << 10
	maxRaw   = 8 << 20
	// maxWindow is how far back a packed batch may refer; it bounds the memory of a reader.
	maxWindow = 8 << 20
)

// Batch collects records for one message. The zero Batch is empty.
type Batch struct {
	First, Last uint64 // seq of its records

	n   int
	raw []byte
}

// Add adds a record, with the line of its values or without, and reports whether it had room.
// An empty batch has room for any record that the daemon writes.
func (b *Batch) Add(seq uint64, line, values []byte) bool {
	size := len(line) + len(values) + 2
	if b.n >= MaxRecords || b.n > 0 && len(b.raw)+size > usualRaw {
		return false
	}
	if b.n == 0 {
		b.First = seq
	}
	b.Last, b.n = seq, b.n+1
	b.raw = append(append(b.raw, line...), '\n')
	if len(values) > 0 {
		b.raw = append(append(b.raw, values...), '\n')
	}
	return true
}

// Len returns the number of records.
func (b *Batch) Len() int { return b.n }

// IsFull reports whether b has as many records as a batch may have.
func (b *Batch) IsFull() bool { return b.n >= MaxRecords || len(b.raw) >= usualRaw }

// Raw returns the lines of the batch, as they lie in a segment of a log.
func (b *Batch) Raw() []byte { return b.raw }

// Reset empties b, and keeps its memory.
func (b *Batch) Reset() { *b = Batch{raw: b.raw[:0]} }

var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(true))
	if err != nil {
		panic("stream: " + err.Error()) // the options are constants
	}
	return e
})

var unpacker = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic("stream: " + err.Error()) // the options are constants
	}
	return d
})

// Pack returns the batch as it travels.
func (b *Batch) Pack() ([]byte, error) {
	packed := packer().EncodeAll(b.raw, nil)
	if len(packed) > MaxPacked {
		return nil, fmt.Errorf("pack records %d to %d: they have %d bytes; the maximum is %d", b.First, b.Last, len(packed), MaxPacked)
	}
	return packed, nil
}

// Unpack calls see for each record of a packed batch, in order. The entry is valid during the
// call. The batch is somebody else's: it has at most MaxRecords records, and takes a bounded
// amount of memory.
func Unpack(packed []byte, see func(record.Entry) error) error {
	if len(packed) > MaxPacked {
		return fmt.Errorf("unpack a batch of records: it has %d bytes; the maximum is %d", len(packed), MaxPacked)
	}
	raw, err := unpacker().DecodeAll(packed, nil)
	if err != nil {
		return fmt.Errorf("unpack a batch of records: %w", err)
	}
	entries := record.NewReader(bytes.NewReader(raw), 0)
	for n := 0; ; n++ {
		e, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("unpack a batch of records: it is empty")
		case err != nil:
			return fmt.Errorf("unpack a batch of records: %w", err)
		case n == MaxRecords:
			return fmt.Errorf("unpack a batch of records: it has more than %d", MaxRecords)
		}
		if err := see(e); err != nil {
			return err
		}
	}
}

// Last returns the seq and the hex SHA-256 of the last record of a packed batch: the cursor of
// who sends the next one.
func Last(packed []byte) (record.Chain, error) {
	var last record.Chain
	err := Unpack(packed, func(e record.Entry) error {
		var ok bool
		if last, ok = record.After(e); !ok {
			return errors.New("unpack a batch of records: a record in it is damaged")
		}
		return nil
	})
	return last, err
}
