package facts

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
