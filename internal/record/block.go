package record

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// Block is a stretch of a segment that was looked through once, so that whoever
// looks for something later need not read it to know that it is not there.
// Blocks of a segment follow one on the other, from its start.
type Block struct {
	Segment      uint64
	From, To     int64     // offsets in the segment; To is where the next entry begins
	First, Last  uint64    // seq of the first and the last record, 0 for none
	Since, Until time.Time // the earliest and the latest time; clocks may be set back
}

// Posting says where in a block a member of the records has a value: Word in
// Field. One with an empty Word says that the field has too many values to be kept
// apart.
type Posting struct {
	Field, Word string
	Places      []byte // uvarints: each offset less the one before, the first less Block.From
}

// Offsets returns the places in the segment, in order. What is no list of places
// is an error.
func (p *Posting) Offsets(b Block) ([]int64, error) {
	var offsets []int64
	at := b.From
	for rest := p.Places; len(rest) > 0; {
		step, n := binary.Uvarint(rest)
		if n <= 0 || step > uint64(b.To-at) {
			return nil, errors.New("an index of the log is damaged")
		}
		at += int64(step)
		offsets, rest = append(offsets, at), rest[n:]
	}
	return offsets, nil
}

// IndexedFields are the members by which records are looked for.
func IndexedFields() []string { return []string{"kind", "server", "tool", "verdict", "session"} }

// maxWords is how many values of one member a block keeps apart. A member that has
// more is left out: URIs, say, each of which is asked for once.
const maxWords = 1024

// Indexer makes one block. Its methods are for one goroutine.
type Indexer struct {
	block Block
	words map[string]map[string]*posting // field to word; nil for a field with too many
}

type posting struct {
	last   int64
	places []byte
}

// NewIndexer begins a block in a segment at the offset of an entry.
func NewIndexer(segment uint64, from int64) *Indexer {
	x := &Indexer{block: Block{Segment: segment, From: from, To: from}, words: map[string]map[string]*posting{}}
	for _, field := range IndexedFields() {
		x.words[field] = map[string]*posting{}
	}
	return x
}

// Add takes in the next entry. One that is damaged has no words.
func (x *Indexer) Add(e Entry) {
	x.block.To = e.Offset + e.Size()
	r, err := Parse(e.Line)
	if err != nil {
		return
	}
	if x.block.First == 0 {
		x.block.First, x.block.Since = r.Seq, r.Time
	}
	x.block.Last = max(x.block.Last, r.Seq)
	if r.Time.Before(x.block.Since) {
		x.block.Since = r.Time
	}
	if r.Time.After(x.block.Until) {
		x.block.Until = r.Time
	}
	for field, word := range map[string]string{"kind": string(r.Kind), "server": r.Server, "tool": r.Tool, "verdict": r.Verdict, "session": r.Session} {
		if word != "" {
			x.place(field, word, e.Offset)
		}
	}
}

func (x *Indexer) place(field, word string, offset int64) {
	words := x.words[field]
	if words == nil {
		return
	}
	p := words[word]
	if p == nil {
		if len(words) == maxWords {
			x.words[field] = nil
			return
		}
		p = &posting{last: x.block.From}
		words[strings.Clone(word)] = p
	}
	p.places = binary.AppendUvarint(p.places, uint64(offset-p.last))
	p.last = offset
}

// Size is how many bytes of the segment the block covers so far.
func (x *Indexer) Size() int64 { return x.block.To - x.block.From }

// Block returns the block and its postings.
func (x *Indexer) Block() (Block, []Posting) {
	var all []Posting
	for field, words := range x.words {
		if words == nil {
			all = append(all, Posting{Field: field})
		}
		for word, p := range words {
			all = append(all, Posting{Field: field, Word: word, Places: p.places})
		}
	}
	return x.block, all
}
