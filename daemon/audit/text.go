package audit

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Names, ids and sentences stand in the records themselves. They come from
// strangers as much as values do, and none of the options keeps secrets of them.

// shortest is from how many bytes on a text is looked at.
const shortest = 6

// harmless remembers texts in which nothing was found: names of tools and the
// like come again and again. It is safe for concurrent use.
type harmless struct {
	mu    sync.RWMutex // guards what follows
	texts map[string]struct{}
}

const (
	maxHarmless  = 4096
	longHarmless = 256 // bytes; longer ones hardly come again
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

// Redacted returns text with every secret that is recognised in it replaced as in
// the log, whatever the options say of values. It may be called at any time.
func (l *Log) Redacted(text string) string { return l.redacted(text, true) }

// redacted is Redacted. A text that comes once is not to be remembered: it would only
// push out others.
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
	if err != nil { // it is not to be told what it hides
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
