package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/bits"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// Version is the version of the line format, the `v` of a record.
const Version = 1

const (
	// timeLayout is RFC 3339 in UTC with six digits of seconds, so that times sort as
	// text.
	timeLayout = "2006-01-02T15:04:05.000000Z"
	// maxText is the maximum number of bytes of one string in a record, since names are
	// untrusted. A cut string says how many bytes are missing.
	maxText = 16 << 10
	// sumLen is the length of a SHA-256 in hex.
	sumLen = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends r to dst as one line without its newline and returns the extended slice.
// The line is valid UTF-8 and contains nothing that any program takes for a line end.
// Invalid UTF-8 is replaced; strings longer than 16 KiB are cut and say how much is
// missing.
func (r *Record) Append(dst []byte) []byte {
	start := len(dst)
	dst = r.appendMembers(dst)
	dst = appendText(dst, "values", r.Values)
	return seal(dst, start)
}

// seal appends the checksum of the line that begins at start, and ends the line.
func seal(dst []byte, start int) []byte {
	return appendSeal(dst, crc32.Checksum(dst[start:], castagnoli))
}

func appendSeal(dst []byte, sum uint32) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, `,"crc":"`...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	return append(dst, `"}`...)
}

// appendMembers appends all members before values.
func (r *Record) appendMembers(dst []byte) []byte {
	v := r.V
	if v == 0 {
		v = Version
	}
	dst = strconv.AppendInt(append(dst, `{"v":`...), int64(v), 10)
	dst = strconv.AppendUint(append(dst, `,"seq":`...), r.Seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = appendTime(dst, r.Time)
	dst = appendQuoted(append(dst, `","prev":`...), r.Prev)
	dst = appendQuoted(append(dst, `,"kind":`...), string(r.Kind))
	fields := reflect.ValueOf(r).Elem()
	for _, m := range optional {
		switch value := fields.Field(m.field).Addr().Interface().(type) {
		case *string:
			dst = appendText(dst, m.name, *value)
		case *uint64:
			dst = appendNumber(dst, m.name, *value)
		case *int64:
			if *value != 0 {
				dst = strconv.AppendInt(appendName(dst, m.name), *value, 10)
			}
		case *bool:
			dst = appendTrue(dst, m.name, *value)
		case *[]string:
			dst = appendList(dst, m.name, *value)
		case **Peer:
			dst = appendPeer(dst, *value)
		}
	}
	return dst
}

// appendTime appends t in timeLayout, truncated to microseconds. The time package has a fast path
// for RFC 3339 only.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	dst = t.AppendFormat(dst, time.RFC3339)
	dot := len(dst) - len("Z")
	dst = strconv.AppendInt(dst[:dot], 1e6+int64(t.Nanosecond())/1000, 10)
	dst[dot] = '.' // instead of the 1, which keeps the zeros
	return append(dst, 'Z')
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return appendQuoted(appendName(dst, name), text)
}

func appendNumber(dst []byte, name string, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendUint(appendName(dst, name), n, 10)
}

func appendTrue(dst []byte, name string, b bool) []byte {
	if !b {
		return dst
	}
	return append(appendName(dst, name), "true"...)
}

func appendList(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = appendName(dst, name)
	for i, text := range list {
		if i == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, text)
	}
	return append(dst, ']')
}

// appendQuoted appends text as a JSON string, cut to maxText.
func appendQuoted(dst []byte, text string) []byte {
	if len(text) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(text[cut]) && cut > maxText-utf8.UTFMax {
			cut--
		}
		text = fmt.Sprintf("%s… (%d more bytes)", text[:cut], len(text)-cut)
	}
	return AppendString(dst, text)
}

// plain reports whether b needs no escape in a JSON string.
func plain(b byte) bool { return b >= ' ' && b < 0x7f && b != '"' && b != '\\' }

// odd returns the index, from at on, of the first byte in line that is not plain;
// len(line) if there is none. It examines eight bytes at once.
func odd(line []byte, at int) int {
	for ; at+8 <= len(line); at += 8 {
		x := binary.LittleEndian.Uint64(line[at:])
		del := x ^ ones*0x7f
		// The lowest of these bits is exact; a higher one may not be.
		if found := (stops(x) | (del-ones)&^del | x) & tops; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(line) && plain(line[at]) {
		at++
	}
	return at
}

// AppendString appends text to dst as a quoted JSON string. Control characters and
// Unicode line ends are escaped, invalid UTF-8 becomes U+FFFD, everything else is
// unchanged.
func AppendString[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	begin := len(dst)
	dst = append(dst, text...)
	start := odd(dst, begin) - begin
	if start == len(text) {
		return append(dst, '"')
	}
	dst = dst[:begin+start]
	for i := start; i < len(text); {
		if plain(text[i]) {
			i++
			continue
		}
		c, size := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			if !(c == utf8.RuneError && size == 1) && c != 0x85 && c != 0x2028 && c != 0x2029 {
				i += size
				continue
			}
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscaped(dst, c)
		i += size
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, c rune) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', byte(c))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case utf8.RuneError:
		return append(dst, "\uFFFD"...)
	}
	return fmt.Appendf(dst, `\u%04x`, c)
}

// Chain is the end of a log, to which the next record is chained. The zero Chain is an
// empty log. It is a value, so that a writer can replace it only after the line was
// written.
type Chain struct {
	Seq uint64 // of the last record; 0 if there is none
	Sum string // hex SHA-256 of its line; empty if there is none
}

// Append makes r the next record of the log. It sets Seq, Prev and Values, and appends
// the line of r to dst and, if values is not nil, the values line, each with its newline.
// It returns the extended slice and the Chain after these bytes are written.
//
// values are the members of the values line after the first, such as `"arguments":{...}`:
// valid JSON without raw line ends.
func (c Chain) Append(dst []byte, r *Record, values []byte) ([]byte, Chain) {
	r.Seq, r.Prev, r.Values = c.Seq+1, c.Sum, ""
	start := len(dst)
	dst = r.appendMembers(dst)
	if values == nil {
		dst = seal(dst, start)
		next := Chain{Seq: r.Seq, Sum: sumOf(dst[start:])}
		return append(dst, '\n'), next
	}

	// The digest precedes the values: leave space and fill it in later.
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
	seal(dst[:body], start) // overwrites the placeholder checksum
	next := Chain{Seq: r.Seq, Sum: sumOf(dst[start:end])}
	return append(dst, '\n'), next
}

// After returns the Chain after e. It reports false if the line is damaged or not a
// record.
func After(e Entry) (Chain, bool) {
	seq, _, ok := Peek(e.Line)
	if !ok {
		return Chain{}, false
	}
	return Chain{Seq: seq, Sum: sumOf(e.Line)}, true
}

// Sound reports whether the values of e match the digest in its record. It is also true
// if the values are absent.
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

// declared returns the digest of the values that a sealed line names; nil if there is
// none. values is the last member before the checksum, so it is found without parsing the
// line: these bytes can't occur inside a string.
func declared(line []byte) []byte {
	const name = `,"values":"`
	end := len(line) - sealLen - 1
	start := end - sumLen
	if start < len(name) || line[end] != '"' || string(line[start-len(name):start]) != name {
		return nil
	}
	return line[start:end]
}

// belongs reports whether values is the values line of the record seq.
func belongs(values []byte, seq uint64) bool {
	var prefix [32]byte
	want := strconv.AppendUint(append(prefix[:0], valuesPrefix...), seq, 10)
	if len(values) <= len(want) || string(values[:len(want)]) != string(want) {
		return false
	}
	return values[len(want)] == ',' || values[len(want)] == '}'
}
