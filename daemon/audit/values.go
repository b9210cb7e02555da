package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	// maxKept is how large a buffer may be to be used again.
	maxKept = 1 << 20
	// maxArguments is up to which size redacted arguments are kept whole;
	// previewed is how much is kept of larger ones.
	maxArguments = 64 << 10
	previewed    = 16 << 10
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func putBuffer(b *[]byte) {
	if cap(*b) <= maxKept {
		buffers.Put(b)
	}
}

// hmacKey computes HMACs under the key of one log, so that equal values can be
// matched within the log and mean nothing outside of it.
type hmacKey struct {
	pool sync.Pool
	mask func(secret []byte) string // what stands in the record for a secret
}

// summer is what one HMAC is computed with.
type summer struct {
	hash.Hash
	sum [sha256.Size]byte
}

func newKey(key []byte) *hmacKey {
	k := &hmacKey{}
	k.pool.New = func() any { return &summer{Hash: hmac.New(sha256.New, key)} }
	k.mask = k.masked
	return k
}

func (k *hmacKey) sum(value []byte) [sha256.Size]byte {
	h := k.pool.Get().(*summer)
	defer k.pool.Put(h)
	h.Reset()
	h.Write(value)
	h.Sum(h.sum[:0])
	return h.sum
}

func (k *hmacKey) masked(secret []byte) string {
	sum := k.sum(secret)
	return "hmac:" + hex.EncodeToString(sum[:8])
}

// Names of the member that holds what is kept of values.
const (
	ofArguments = "arguments"
	ofParams    = "params" // arguments among other things
)

// members appends the members of the line of values, of which name is what is kept of values
// unless keep is false, how long they were, and their HMAC.
func (l *Log) members(dst []byte, name string, values []byte, redact []string, keep bool) []byte {
	key := l.key.Load()
	var kept []byte
	if keep {
		kept = l.kept(key, values, redact)
	}
	switch {
	case kept == nil:
	case l.keeping().Values != ValuesFull && len(kept) > maxArguments:
		dst = append(dst, `"preview":`...)
		dst = record.AppendString(dst, wholeRunes(kept[:previewed]))
		dst = append(dst, ',')
	default:
		dst = append(append(append(dst, '"'), name...), `":`...)
		dst = appendOneLine(dst, kept)
		dst = append(dst, ',')
	}
	dst = append(dst, `"bytes":`...)
	dst = strconv.AppendInt(dst, int64(len(values)), 10)
	dst = append(dst, `,"hmac":"`...)
	sum := key.sum(values)
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, '"')
}

// kept returns what the options let be kept of values, nil for nothing.
func (l *Log) kept(key *hmacKey, values []byte, redact []string) []byte {
	switch {
	case l.keeping().Values == ValuesFull && len(redact) == 0:
		return values
	case l.keeping().Values == ValuesFull:
		return rawjson.Mask(values, redact, key.mask)
	case l.keeping().Values == ValuesRedacted && l.o.Redact != nil:
		return l.o.Redact(values, redact, key.mask)
	}
	return nil
}

// appendOneLine appends a JSON value without its line ends, which can only be
// blanks between tokens. What is not JSON is kept as a string: no accident on
// the way here can break a line.
func appendOneLine(dst, value []byte) []byte {
	if !jsontext.Value(value).IsValid(jsontext.AllowDuplicateNames(true)) {
		return record.AppendString(dst, value)
	}
	start := len(dst)
	dst = append(dst, value...)
	for _, end := range []byte("\n\r") {
		for line := dst[start:]; ; {
			i := bytes.IndexByte(line, end)
			if i < 0 {
				break
			}
			line[i] = ' '
			line = line[i+1:]
		}
	}
	return dst
}

// wholeRunes cuts off a character that is not whole.
func wholeRunes(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.RuneStart(text[len(text)-n]) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}
