package agent

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// output keeps the last bytes of what a command writes.
type output struct {
	most int

	mu   sync.Mutex // guards the fields below
	text []byte
	cut  bool
}

// Write appends b and discards from the front what exceeds the limit. It never fails.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	if len(o.text) > 2*o.most+4096 { // rarely, since trim moves the text
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

// read returns what is kept, starting at a whole character.
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
