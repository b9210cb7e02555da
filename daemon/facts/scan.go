package facts

import "sync"

// engine holds the words to search for, and what each of them may indicate. It is built once and
// is immutable.
type engine struct {
	words *automaton
	uses  [][]use
	size  []int // length of each word
	rules []compiled
}

// use is what a keyword may indicate.
type use struct {
	kind useKind
	rule int
}

type useKind uint8

const (
	useRule   useKind = iota // one of the borrowed rules
	useName                  // a name whose value is a secret, such as `password=...`
	useScheme                // `Bearer ...`, `Basic ...`
	useURL                   // user:pass@host
	useKey                   // a private key
	usePlace                 // a place where credentials are kept
)

var theEngine = sync.OnceValue(newEngine)

func newEngine() *engine {
	e := &engine{rules: make([]compiled, len(borrowed))}
	index := map[string]int{}
	var words []string
	add := func(word string, u use) {
		n, ok := index[word]
		if !ok {
			n = len(words)
			index[word] = n
			words = append(words, word)
			e.uses = append(e.uses, nil)
			e.size = append(e.size, len(word))
		}
		e.uses[n] = append(e.uses[n], u)
	}
	for i := range borrowed {
		e.rules[i].rule = &borrowed[i]
		for _, k := range borrowed[i].keywords {
			add(k, use{useRule, i})
		}
	}
	for kind, words := range map[useKind][]string{
		useName: nameKeywords, useScheme: {"bearer", "basic "}, useURL: {"://"},
		useKey: {"-----begin", "private-lines:"}, usePlace: placeKeywords,
	} {
		for _, w := range words {
			add(w, use{kind: kind})
		}
	}
	e.words = newAutomaton(words)
	return e
}

// scan is one pass over one text.
type scan struct {
	*engine
	text   []byte
	budget *int            // bytes on which expressions may still be tried; shared by all texts of a call
	secret func(find) bool // called for each secret; returns false to stop
	place  func(start int) // called with the start of a place keyword; may be nil
	runs   runs
	wait   map[int]span // windows of rules that are not anchored, by rule; touching windows are joined
	named  int          // end of the last name that was judged
	done   int          // end of the last secret
	prose  bool         // the text is for people
	joined bool         // the text is a concatenation: only forms that this cannot produce count
	over   bool         // the budget is exhausted
	work   int          // bytes examined for forms
}

// run makes the pass. It reports whether the examination was complete.
func (s *scan) run() bool {
	s.words.scan(s.text, func(word, end int) {
		start := end - s.size[word]
		for _, u := range s.uses[word] {
			if u.kind == usePlace {
				if s.place != nil {
					s.place(start)
				}
			} else if s.secret != nil && start >= s.done {
				s.search(u, start, end)
			}
		}
	})
	for r, w := range s.wait {
		if s.secret != nil {
			s.window(r, w)
		}
	}
	return !s.over
}

func (s *scan) search(u use, start, end int) {
	var f find
	var ok bool
	if s.joined && u.kind != useRule && u.kind != useKey {
		return
	}
	switch u.kind {
	case useRule:
		s.try(u.rule, start)
		return
	case useName:
		if end <= s.named {
			return
		}
		f, s.named, ok = assigned(s.text, start, end)
	case useScheme:
		f, ok = schemed(s.text, start, end)
	case useURL:
		f, ok = inURL(s.text, end, s.prose)
	case useKey:
		f, ok = privateKey(s.text, start, end)
	}
	s.work += f.looked
	if ok {
		s.report(f)
	}
}

func (s *scan) report(f find) {
	s.done = max(s.done, f.end)
	if s.secret != nil && !s.secret(f) {
		s.secret = nil
	}
}

// try applies a borrowed rule whose keyword begins at start.
func (s *scan) try(n, start int) {
	r := &s.rules[n]
	if !r.anchored {
		w := span{max(0, start-windowBefore), min(len(s.text), start+windowAfter)}
		old, waiting := s.wait[n]
		if waiting && old.end >= w.start {
			w.start = old.start
		} else if waiting {
			s.window(n, old)
		}
		if s.wait == nil {
			s.wait = map[int]span{}
		}
		s.wait[n] = w
		return
	}
	if r.boundary && !s.joined && start > 0 && isWord(s.text[start-1]) || !r.begins(s.text[start:]) {
		return
	}
	size := r.reach + 1
	if r.reach == 0 {
		size = max(windowAfter, lengthOfRun(s.text[start:min(len(s.text), start+longest)]))
	}
	to := min(len(s.text), start+size)
	if !s.runs.reach(r.run, s.text, start, to) || !r.needs(s.text[start:to]) || !s.afford(r.cost(to-start)) {
		return
	}
	f, open, ok := r.match(s.text, start, to)
	if open {
		// The window may have truncated the match.
		if to = min(len(s.text), start+longest); !s.afford(r.cost(to - start)) {
			return
		}
		f, _, ok = r.match(s.text, start, to)
	}
	if ok {
		s.report(f)
	}
}

// window applies a rule that is not anchored to a part of the text.
func (s *scan) window(n int, w span) {
	delete(s.wait, n)
	r := &s.rules[n]
	w.end = min(len(s.text), w.end+lengthOfRun(s.text[w.end:min(len(s.text), w.end+longest)]))
	if !s.runs.reach(r.run, s.text, w.start, w.end) || !r.needs(s.text[w.start:w.end]) {
		return
	}
	for from := w.start; from < w.end && s.secret != nil; {
		if !s.afford(r.cost(w.end - from)) {
			return
		}
		f, _, ok := r.match(s.text, from, w.end)
		if f.end == 0 {
			return
		}
		if ok {
			s.report(f)
		}
		from = f.end
	}
}

// afford takes n bytes from the budget and reports whether they were available. This protects
// against a text that consists of keywords.
func (s *scan) afford(n int) bool {
	if *s.budget < n {
		s.over, s.secret = true, nil
		return false
	}
	*s.budget -= n
	return true
}

// lengthOfRun returns how many bytes at the start of text may belong to a token that began before
// it.
func lengthOfRun(text []byte) int {
	for i, c := range text {
		if !isRun[c] && c != '+' && c != '/' && c != '=' && c != '.' {
			return i
		}
	}
	return len(text)
}

// automaton finds any number of words in a text in one pass, ignoring ASCII case, by the
// algorithm of Aho and Corasick: in a tree of the words, each node also knows where to continue
// when the text leaves the current words. The steps are precomputed in a table, so that a byte
// costs two lookups.
type automaton struct {
	class [256]uint8 // column of next for a byte; 0 for bytes in no word
	shift uint       // a row of next has 1<<shift columns
	next  []uint16   // next[state<<shift|class]
	first []uint16   // words[first[s]:first[s+1]] end in state s
	words []uint16   // indices of words
}

// newAutomaton builds the automaton for words, which must be lower-case ASCII.
func newAutomaton(words []string) *automaton {
	a := &automaton{}
	classes := 1
	for _, w := range words {
		for i := range len(w) {
			c := w[i]
			if a.class[c] != 0 {
				continue
			}
			a.class[c] = uint8(classes)
			if 'a' <= c && c <= 'z' {
				a.class[c-'a'+'A'] = uint8(classes)
			}
			classes++
		}
	}
	for 1<<a.shift < classes {
		a.shift++
	}
	ends := a.tree(words)
	a.link(ends)
	return a
}

// tree adds the words to the table. It returns which words end in each state.
func (a *automaton) tree(words []string) (ends [][]uint16) {
	row := func() {
		a.next = append(a.next, make([]uint16, 1<<a.shift)...)
		ends = append(ends, nil)
	}
	row()
	for n, w := range words {
		state := 0
		for i := range len(w) {
			at := state<<a.shift | int(a.class[w[i]])
			if a.next[at] == 0 {
				row()
				a.next[at] = uint16(len(ends) - 1)
			}
			state = int(a.next[at])
		}
		ends[state] = append(ends[state], uint16(n))
	}
	return ends
}

// link fills in the steps for text that leaves a word: to the state of the longest suffix that
// begins a word. It visits states by depth, so that a suffix is complete before it is needed.
func (a *automaton) link(ends [][]uint16) {
	suffix := make([]uint16, len(ends))
	queue := make([]uint16, 0, len(ends))
	columns := 1 << a.shift
	for c := range columns {
		if s := a.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for i := 0; i < len(queue); i++ {
		s := int(queue[i])
		back := int(suffix[s])
		ends[s] = append(ends[s], ends[back]...)
		for c := range columns {
			to := &a.next[s<<a.shift|c]
			if *to == 0 {
				*to = a.next[back<<a.shift|c]
				continue
			}
			suffix[*to] = a.next[back<<a.shift|c]
			queue = append(queue, *to)
		}
	}
	for _, e := range ends {
		a.first = append(a.first, uint16(len(a.words)))
		a.words = append(a.words, e...)
	}
	a.first = append(a.first, uint16(len(a.words)))
}

// scan calls found for each word in text with its index and the offset of its end, in the order
// of the ends.
func (a *automaton) scan(text []byte, found func(word, end int)) {
	state := 0
	for i, c := range text {
		state = int(a.next[state<<a.shift|int(a.class[c])])
		if from, to := a.first[state], a.first[state+1]; from != to {
			for _, w := range a.words[from:to] {
				found(int(w), i+1)
			}
		}
	}
}
