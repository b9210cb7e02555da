package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Block is a range of a segment that was indexed, so that a later search can skip it. The
// blocks of a segment are contiguous, from its start.
type Block struct {
	Segment      uint64
	From, To     int64     // offsets in the segment; To is where the next entry begins
	First, Last  uint64    // seq of the first and last record; 0 if there is none
	Since, Until time.Time // earliest and latest time; clocks may be set back
}

// Posting lists the records of a block in which the member Field has the value Word. If
// Word is empty, the field has too many values to be indexed.
type Posting struct {
	Field, Word string
	Places      []byte // uvarints: each offset minus the previous one, the first minus Block.From
}

// Offsets returns the offsets of the records in the segment, in ascending order. It fails
// if Places is corrupt.
func (p *Posting) Offsets(b Block) ([]int64, error) {
	var offsets []int64
	at := b.From
	for rest := p.Places; len(rest) > 0; {
		step, n := binary.Uvarint(rest)
		if n <= 0 || step > uint64(b.To-at) {
			return nil, errors.New("an index of the log is corrupt")
		}
		at += int64(step)
		offsets, rest = append(offsets, at), rest[n:]
	}
	return offsets, nil
}

// maxWords is the maximum number of values of one member that a block indexes. A member
// with more is not indexed, such as URIs that are each used once.
const maxWords = 1024

// Indexer builds one block. Its methods must be called by one goroutine.
type Indexer struct {
	block  Block
	record indexed
	fields [len(indexedFields)]wordsOf
}

// wordsOf collects the values of one field.
type wordsOf struct {
	words map[string]*posting
	many  bool     // there were too many, and none is kept
	last  *posting // consecutive records mostly have the same value
}

type posting struct {
	word   string
	at     int64 // offset of the last record
	places []byte
}

// NewIndexer starts a block at the offset of an entry in a segment.
func NewIndexer(segment uint64, from int64) *Indexer {
	return &Indexer{block: Block{Segment: segment, From: from, To: from}}
}

// Add adds the next entry. A damaged entry has no words.
func (x *Indexer) Add(e Entry) {
	x.block.To = e.Offset + e.Size()
	r := &x.record
	if !r.read(e.Line) {
		return
	}
	if x.block.First == 0 {
		x.block.First, x.block.Since = r.seq, r.time
	}
	x.block.Last = max(x.block.Last, r.seq)
	if r.time.Before(x.block.Since) {
		x.block.Since = r.time
	}
	if r.time.After(x.block.Until) {
		x.block.Until = r.time
	}
	for i, word := range r.words {
		if len(word) > 0 {
			x.fields[i].place(word, x.block.From, e.Offset)
		}
	}
}

// place records that the record at offset has the word, in a block that begins at from.
func (w *wordsOf) place(word []byte, from, offset int64) {
	if w.many {
		return
	}
	p := w.last
	if p == nil || p.word != string(word) {
		p = w.words[string(word)]
	}
	if p == nil {
		if len(w.words) == maxWords {
			*w = wordsOf{many: true}
			return
		}
		if w.words == nil {
			w.words = map[string]*posting{}
		}
		p = &posting{word: string(word), at: from}
		w.words[p.word] = p
	}
	p.places = binary.AppendUvarint(p.places, uint64(offset-p.at))
	p.at, w.last = offset, p
}

// Size returns the number of bytes of the segment that the block covers so far.
func (x *Indexer) Size() int64 { return x.block.To - x.block.From }

// Block returns the block and its postings.
func (x *Indexer) Block() (Block, []Posting) {
	var all []Posting
	for i, field := range indexedFields {
		w := &x.fields[i]
		if w.many {
			all = append(all, Posting{Field: field})
		}
		for word, p := range w.words {
			all = append(all, Posting{Field: field, Word: word, Places: p.places})
		}
	}
	return x.block, all
}

// indexedFields are the members that records can be searched by.
var indexedFields = [...]string{"kind", "server", "tool", "verdict", "session"}

// indexed is the part of a record that an index needs. It is decoded without a Record,
// which would be most of the cost of an index.
type indexed struct {
	seq   uint64
	time  time.Time
	words [len(indexedFields)][]byte // in the order of indexedFields; empty if absent
}

// read decodes line. The words are valid as long as line is. For every line written by
// Append, the result agrees with Parse. It reports false for a damaged line.
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
			x.time = c.time()
		default:
			if i := slices.Index(indexedFields[:], string(c.name)); i >= 0 {
				x.words[i] = c.plain()
			} else {
				c.check()
			}
		}
	}
	return c.err == nil && (!c.halves || jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)))
}

// plain is like text, but the result is valid only as long as the line.
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
