package facts

// automaton finds any number of words in a text in one pass, without regard to
// ASCII case, after Aho and Corasick: a tree of the words in which each node
// also knows where to go on when the text leaves the words it is in. The steps
// are written out as a table, so that a byte of text costs two look-ups.
type automaton struct {
	class [256]uint8 // of a byte: which column of next; 0 for bytes in no word
	shift uint       // a row of next has 1<<shift columns
	next  []uint16   // next[state<<shift|class]
	first []uint16   // words[first[s]:first[s+1]] end in state s
	words []uint16   // numbers of words
}

// newAutomaton builds the table for words, which are lower case ASCII.
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

// tree enters the words into the table and returns which end in which state.
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

// link fills in where to go on when a word ends otherwise than begun: to the
// state of the longest suffix read that begins a word. States are visited by
// depth, so that a suffix has been finished before it is needed.
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

// scan calls found for each word in the text, with its number and the offset
// of its end, in the order of the ends.
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
