package agent

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// output keeps the end of what a command writes.
type output struct {
	most int

	mu   sync.Mutex // guards what follows
	text []byte
	cut  bool
}

// Write keeps b, and lets go of what is too much at the front. It never fails.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	if len(o.text) > 2*o.most+4096 { // seldom, since it is moved
		o.trim()
	}
	return len(b), nil
}

func (o *output) trim() {
	if len(o.text) > o.most {
		o.text = append([]byte(nil), o.text[len(o.text)-o.most:]...)
		o.cut = true
	}
}

// read returns what is kept, from a whole character on.
func (o *output) read() (text string, cut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trim()
	kept := o.text
	for i := 0; o.cut && i < utf8.UTFMax && len(kept) > 0 && !utf8.RuneStart(kept[0]); i++ {
		kept = kept[1:]
	}
	return strings.ToValidUTF8(string(kept), "\uFFFD"), o.cut
}
