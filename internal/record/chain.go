package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Chain is where a log stands: what the next record is chained to. The zero
// Chain is an empty log. It is a value, so that a writer moves on to the next
// one only when the line has been written.
type Chain struct {
	Seq uint64 // of the last record, 0 when there is none
	Sum string // hex SHA-256 of its line, empty when there is none
}

// Append makes r the next record of the log: it fills in Seq, Prev and Values,
// appends the line of r to dst and, when values is not nil, the line of values
// behind it, each with its newline. It returns the extended slice and where the
// log stands when these bytes have been written.
//
// values are the members of the line of values after the first, as
// `"arguments":{...}`: valid JSON without raw line ends.
func (c Chain) Append(dst []byte, r *Record, values []byte) ([]byte, Chain) {
	r.Seq, r.Prev, r.Values = c.Seq+1, c.Sum, ""
	start := len(dst)
	dst = r.appendMembers(dst)
	if values == nil {
		dst = seal(dst, start)
		next := Chain{Seq: r.Seq, Sum: sumOf(dst[start:])}
		return append(dst, '\n'), next
	}

	// The digest of the values stands before them: leave room, fill it in.
	dst = append(appendName(dst, "values"), '"')
	room := len(dst)
	var blank [sumLen]byte
	dst = append(append(dst, blank[:]...), '"')
	body := len(dst)
	dst = appendSeal(dst, 0)
	end := len(dst)
	dst = append(dst, '\n')
	second := len(dst)
	dst = strconv.AppendUint(append(dst, valuesPrefix...), r.Seq, 10)
	if len(values) > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(dst, values...), '}')
	r.Values = sumOf(dst[second:])
	copy(dst[room:], r.Values)
	seal(dst[:body], start) // writes over the checksum that kept its place
	next := Chain{Seq: r.Seq, Sum: sumOf(dst[start:end])}
	return append(dst, '\n'), next
}

// After returns where a log stands whose last record is e. It is false when the
// line is damaged or no record.
func After(e Entry) (Chain, bool) {
	seq, _, ok := Peek(e.Line)
	if !ok {
		return Chain{}, false
	}
	return Chain{Seq: seq, Sum: sumOf(e.Line)}, true
}

// Sound reports whether the values of e are those its record names. It is true
// as well when they are not there.
func (e *Entry) Sound() bool {
	if e.Values == nil {
		return true
	}
	seq, _, ok := Peek(e.Line)
	want := declared(e.Line)
	return ok && want != nil && belongs(e.Values, seq) && sumOf(e.Values) == string(want)
}

func sumOf(line []byte) string {
	sum := sha256.Sum256(line)
	var text [sumLen]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// declared returns the digest of values that a sealed line names, nil when it
// names none. values is the last member before the checksum, so that it is
// found without reading the line: these bytes can't stand inside a string.
func declared(line []byte) []byte {
	const name = `,"values":"`
	end := len(line) - sealLen - 1
	start := end - sumLen
	if start < len(name) || line[end] != '"' || string(line[start-len(name):start]) != name {
		return nil
	}
	return line[start:end]
}

// belongs reports whether values is the line of values of the record seq.
func belongs(values []byte, seq uint64) bool {
	var prefix [32]byte
	want := strconv.AppendUint(append(prefix[:0], valuesPrefix...), seq, 10)
	if len(values) <= len(want) || string(values[:len(want)]) != string(want) {
		return false
	}
	return values[len(want)] == ',' || values[len(want)] == '}'
}
