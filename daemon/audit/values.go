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

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	// maxKept is the maximum size of a buffer that is reused, in bytes.
	maxKept = 1 << 20
	// maxArguments is the maximum size of redacted arguments that are kept whole;
	// previewed is how much is kept of larger ones. Both are in bytes.
	maxArguments = 64 << 10
	previewed    = 16 << 10
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func putBuffer(b *[]byte) {
	if cap(*b) <= maxKept {
		buffers.Put(b)
	}
}

// hmacKey computes HMACs under the key of one log. Equal values match within the log;
// outside of it the HMACs mean nothing.
type hmacKey struct {
	pool sync.Pool
	mask func(secret []byte) string // returns the text that replaces a secret in a record
}

// summer is the reusable state of one HMAC computation.
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

// Names of the member that contains the kept values.
const (
	ofArguments = "arguments"
	ofParams    = "params" // arguments and more
)

// members appends the members of a values line: what is kept of values, as the member
// name, unless keep is false; their length; and their HMAC.
func (l *Log) members(dst []byte, name string, values []byte, redact []string, keep bool) []byte {
	key := l.key.Load()
	var kept []byte
	if keep {
		kept = l.kept(key, values, redact)
	}
	switch {
	case kept == nil:
	case l.keeping().Values != config.ValuesFull && len(kept) > maxArguments:
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

// kept returns what the options allow to be kept of values; nil if nothing.
func (l *Log) kept(key *hmacKey, values []byte, redact []string) []byte {
	switch {
	case l.keeping().Values == config.ValuesFull && len(redact) == 0:
		return values
	case l.keeping().Values == config.ValuesFull:
		return rawjson.Mask(values, redact, key.mask)
	case l.keeping().Values == config.ValuesRedacted && l.o.Redact != nil:
		return l.o.Redact(values, redact, key.mask)
	}
	return nil
}

// appendOneLine appends a JSON value without its line ends, which can only be blanks
// between tokens. Invalid JSON is kept as a string, so that it can't break a line.
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

// wholeRunes cuts off an incomplete character at the end.
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

// Names, ids and sentences are part of the records themselves. They are as untrusted as
// values, and no option allows secrets in them.

// shortest is the length, in bytes, from which a text is checked.
const shortest = 6

// harmless caches texts without secrets, since names of tools and the like occur again
// and again. It is safe for concurrent use.
type harmless struct {
	mu    sync.RWMutex // guards texts
	texts map[string]struct{}
}

const (
	maxHarmless  = 4096
	longHarmless = 256 // bytes; longer texts rarely recur
)

func (h *harmless) has(text string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	_, ok := h.texts[text]
	return ok
}

func (h *harmless) add(text string) {
	if len(text) > longHarmless {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.texts == nil || len(h.texts) >= maxHarmless {
		h.texts = map[string]struct{}{}
	}
	h.texts[text] = struct{}{}
}

// Redacted returns text with every recognized secret replaced as in the log, whatever the
// options say about values. It may be called at any time.
func (l *Log) Redacted(text string) string { return l.redacted(text, true) }

// redacted is Redacted. again says that the text may recur; others are not cached, since
// they would only displace those that do.
func (l *Log) redacted(text string, again bool) string {
	if len(text) < shortest || l.o.Redact == nil || l.harmless.has(text) {
		return text
	}
	mask := func([]byte) string { return "secret" }
	if key := l.key.Load(); key != nil {
		mask = key.mask
	}
	room := buffers.Get().(*[]byte)
	defer putBuffer(room)
	*room = record.AppendString((*room)[:0], text)
	redacted := l.o.Redact(*room, nil, mask)
	if bytes.Equal(*room, redacted) {
		if again {
			l.harmless.add(text)
		}
		return text
	}
	plain, err := jsontext.AppendUnquote(nil, redacted)
	if err != nil { // what it hides can't be determined
		return mask([]byte(text))
	}
	return string(plain)
}

// clean returns r, or a copy of it without the secrets in its texts.
func (l *Log) clean(r *record.Record) *record.Record {
	texts := func(r *record.Record) []*string {
		return []*string{&r.Tool, &r.Method, &r.MessageID, &r.Reason, &r.Rule}
	}
	written := r
	for i, text := range texts(r) {
		if redacted := l.redacted(*text, text != &r.MessageID); redacted != *text {
			if written == r {
				copied := *r
				written = &copied
			}
			*texts(written)[i] = redacted
		}
	}
	return written
}

// Kept decodes a values line. It returns what was kept of the values, nil if nothing;
// whether that is complete and unchanged; and whether it is the params of a call rather
// than its arguments alone. Values that were redacted, cut or not kept are not whole.
func (l *Log) Kept(line []byte) (values []byte, whole, params bool) {
	var sum []byte
	members, err := rawjson.Members(line)
	for _, m := range members {
		switch {
		case (m.Name == ofArguments || m.Name == ofParams) && m.Value.Kind() == '{':
			values, params = bytes.Clone(m.Value), m.Name == ofParams
		case m.Name == "hmac" && m.Value.Kind() == '"':
			sum, err = hex.DecodeString(string(m.Value[1 : len(m.Value)-1]))
		}
	}
	if err != nil {
		return nil, false, false
	}
	key := l.key.Load()
	if values == nil || key == nil {
		return values, false, params
	}
	was := key.sum(values)
	return values, hmac.Equal(sum, was[:]), params
}
