package facts

import "github.com/thoughtgate/thoughtgated/internal/display"

// toolDeeds is what the name of a tool says about what the tool does.
type toolDeeds struct {
	deed    deed
	sends   bool // may be set in addition to acts
	words   wordList
	at      int           // index of the word for deed
	sentAt  int           // index of the word for sends
	foreign [acts]*string // words in another language for sends and acts
}

// by returns the word of the name that stands for d.
func (s *toolDeeds) by(d deed) string {
	switch word := s.foreign[d-1]; {
	case word != nil:
		return *word
	case d == sends:
		return string(s.words.word(s.sentAt))
	}
	return string(s.words.word(s.at))
}

// deedsIn returns what a tool with this name does. clean is the name without disguises.
func deedsIn(name string, clean []byte) toolDeeds {
	s := deedsOf(clean)
	if display.IsASCII(clean) && display.IsASCII(name) {
		return s
	}
	for d, word := range foreignIn(name) {
		switch {
		case word == nil:
		case deed(d+1) == sends && !s.sends:
			s.sends, s.deed, s.foreign[d] = true, max(s.deed, sends), word
		case deed(d+1) == acts && s.deed != acts:
			s.deed, s.foreign[d] = acts, word
		}
	}
	return s
}

// deedsOf is deedsIn for a cleaned name, by words in Latin letters.
func deedsOf(name []byte) toolDeeds {
	var s toolDeeds
	if hosted[string(name)] {
		return s
	}
	s.words = split(name)
	if d := alone[string(s.words.word(0))]; d > 0 && s.words.n == 1 {
		return toolDeeds{deed: d, sends: d == sends, words: s.words}
	}
	var n namedDeeds
	for i := range s.words.n {
		this := n.word(&s.words, i)
		if this == sends && !s.sends {
			s.sends, s.sentAt = true, i
		}
		if this > s.deed {
			s.deed, s.at = this, i
		}
	}
	return s
}

// namedDeeds holds the state while the words of a name are interpreted.
type namedDeeds struct {
	made, created, changed bool // whether such a word has occurred
	reading                bool // the words that follow name what is read
}

// word returns the meaning of the i-th word, given the words before it.
func (n *namedDeeds) word(w *wordList, i int) deed {
	this := w.word(i)
	d := verbs[string(this)]
	switch {
	case d == reads && n.created:
		d = noDeed
	case d == noDeed && !n.reading:
		d = nouns[string(this)]
	}
	if d == noDeed && i == 0 {
		d = starters[string(this)]
	}
	if d == noDeed && !n.reading {
		d = n.derived(w, i)
	}
	if d == noDeed && n.made && !(i > 0 && queues[string(w.word(i-1))]) {
		if d = objects[string(this)]; d == noDeed && placed[string(this)] && !n.changed {
			d = acts
		}
	}
	n.reading = (n.reading || d == reads) && !joins[string(this)]
	n.made = n.made || makers[string(this)]
	n.created = n.created || creators[string(this)]
	n.changed = n.changed || changers[string(this)]
	return d
}
