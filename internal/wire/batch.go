package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// maxBatch is how many members of a batch are looked at.
const maxBatch = 16384

// Batch calls each for the messages in line, which was refused as a batch, with the id
// of each that has exactly one that can be read, and whether it asks for something. A
// refused batch runs nothing; but who waits for an answer under one of these ids must
// be told. An id that comes again is left out, and what comes behind a fault is.
func Batch(line []byte, from Side, each func(id []byte, asks bool)) {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if open, err := dec.ReadToken(); err != nil || open.Kind() != '[' {
		return
	}
	seen := map[string]bool{}
	for range maxBatch {
		value, err := dec.ReadValue()
		if err != nil {
			return
		}
		r := errBatch.in(value, from)
		id := r.ID.Of(value)
		key, err := Key(id)
		if id == nil || err != nil || seen[key] {
			continue
		}
		seen[key] = true
		each(bytes.Clone(id), r.Answer)
	}
}
