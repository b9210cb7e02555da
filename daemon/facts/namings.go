package facts

import "bytes"

// A text names a tool when one of its words is the tool's name. The names of
// most tools are words of that shape and no others (send_mail, getUser), and any
// such word is noted, since a tool may be listed later than it is named. A name
// that is an ordinary word (search) is noted only beside the word tool, or in
// quotes behind an order.

const (
	orderReach = 120 // how far behind an order a name is still what it is about
	quoteReach = 8   // how far behind one a word in quotes is
	toolReach  = 4   // what may stand between a name and the word tool: quotes, a blank
)

// plain looks at a word of letters alone.
func (s *sight) plain(w span, made uint8) {
	if s.isAbout(w) || s.isQuoted(w) {
		s.names(s.text[w.start:w.end], told)
	}
	switch s.meaning(s.text[w.start:w.end]) {
	case tells:
		s.order = w.end
	case says:
		s.besideTool(w)
	case names:
		if s.about >= s.last.start && s.about <= w.start {
			s.about = w.end
		}
	}
	if made == ofLower|ofUpper {
		s.identifiers(w, made)
	}
}

// besideTool notes the words beside the word tool.
func (s *sight) besideTool(w span) {
	s.about = w.end
	if before := s.text[s.last.start:s.last.end]; len(before) >= 3 && w.start-s.last.end <= toolReach && s.last.end > 0 {
		s.names(before, told)
	}
}

// isQuoted reports whether w stands in quotes right behind an order.
func (s *sight) isQuoted(w span) bool {
	if s.order < 0 || w.start-s.order > quoteReach || w.start == 0 || w.end == len(s.text) || w.end-w.start < 3 || w.end-w.start > longestTool {
		return false
	}
	before, after := s.text[w.start-1], s.text[w.end]
	return before == after && (before == '`' || before == '\'' || before == '"')
}

// isAbout reports whether w is what a word before it says is a tool: it stands
// close behind, and is not defined there.
func (s *sight) isAbout(w span) bool {
	if s.about < 0 || w.start-s.about > toolReach || w.end-w.start < 3 || w.end-w.start > longestTool {
		return false
	}
	return (w.end == len(s.text) || s.text[w.end] != '(' && s.text[w.end] != '<') && s.meaning(s.text[w.start:w.end]) != names
}

// names reports a name.
func (s *sight) names(name []byte, how strength) {
	exact, letters := s.toolKeys(name)
	s.to.named(exact, how)
	if how == told {
		s.to.named(letters, how)
	}
}

// identifiers reports the parts of a word that have the shape of a name of more
// than one word.
func (s *sight) identifiers(w span, made uint8) {
	if made&(ofLower|ofUpper) == 0 {
		return
	}
	about := s.isAbout(w)
	if about && made&ofAt == 0 {
		s.names(s.text[w.start:w.end], told)
	}
	if made&(ofUnder|ofDash) == 0 && made&(ofLower|ofUpper) != ofLower|ofUpper {
		return
	}
	s.work += w.end - w.start
	for from := w.start; from < w.end; {
		to := from
		for to < w.end && madeOf[s.text[to]]&(ofDot|ofAt|ofPlus) == 0 {
			to++
		}
		s.identifier(span{from, to})
		from = to + 1
	}
}

func (s *sight) identifier(w span) {
	for w.start < w.end && madeOf[s.text[w.start]]&(ofUnder|ofDash) != 0 {
		w.start++
	}
	for w.end > w.start && madeOf[s.text[w.end-1]]&(ofUnder|ofDash) != 0 {
		w.end--
	}
	name := s.text[w.start:w.end]
	if len(name) < 3 || len(name) > longestTool || !hasParts(name) {
		return
	}
	how := s.context(w)
	s.names(name, how)
	if i := bytes.LastIndex(name, []byte("__")); i > 0 { // as agents call the tools of a server
		s.names(name[i+2:], how)
	}
	switch string(name) {
	case "tool_name", "toolName", "function_name":
		s.about = w.end
	}
}

// hasParts reports whether name is more than one word: parted by a mark, or by
// a capital.
func hasParts(name []byte) bool {
	for i := 1; i < len(name); i++ {
		made := madeOf[name[i]]
		if made&(ofUnder|ofDash) != 0 || made == ofUpper && madeOf[name[i-1]]&(ofLower|ofDigit) != 0 {
			return true
		}
	}
	return false
}

// context says how the word w names a tool, by what is around it.
func (s *sight) context(w span) strength {
	text := s.text
	code := w.end < len(text) && text[w.end] == '('
	if w.start > 0 {
		switch before := text[w.start-1]; before {
		case '.', '$', '#':
			code = true
		case ':', '>':
			if w.start > 1 && (text[w.start-2] == ':' || text[w.start-2] == '-') {
				code = true
				s.order = never
			}
		}
	}
	if s.last.end > 0 && s.last.end < w.start {
		if m := s.meaning(text[s.last.start:s.last.end]); m == defines || m == says && code {
			return inCode
		}
	}
	if s.order >= 0 && w.start-s.order <= orderReach || s.beforeTool(w.end) {
		return told
	}
	if code {
		return inCode
	}
	return named
}

// beforeTool reports whether the word tool stands close behind at.
func (s *sight) beforeTool(at int) bool {
	for i := at; i < len(s.text) && i-at <= toolReach; i++ {
		if made := madeOf[s.text[i]]; made != 0 {
			return bytes.HasPrefix(s.text[i:], []byte("tool")) || bytes.HasPrefix(s.text[i:], []byte("function"))
		}
	}
	return false
}

// meaning is what a word has to do with tools.
type meaning uint8

const (
	nothing meaning = iota
	tells           // it orders something
	says            // it says that something is a tool
	names           // it stands between such a word and the name
	defines         // in code, what follows is defined or brought in
)

var meanings = map[string]meaning{
	"use": tells, "using": tells, "call": tells, "calling": tells, "invoke": tells, "invoking": tells, "run": tells, "running": tells,
	"execute": tells, "executing": tells, "trigger": tells, "please": tells, "must": tells, "immediately": tells, "instruction": tells,
	"instructions": tells, "functions": tells, "tools": tells, "tool": says, "function": says,
	"named": names, "called": names, "name": names, "is": names, "the": names,
	"def": defines, "func": defines, "fn": defines, "class": defines, "import": defines, "const": defines, "let": defines, "var": defines,
	"async": defines, "struct": defines, "interface": defines, "enum": defines, "static": defines, "void": defines, "return": defines,
	"await": defines, "public": defines, "private": defines,
}

// mayMean are the first letters of those words, and their lengths are 2 to 12.
var mayMean = func() (table [256]bool) {
	for word := range meanings {
		table[word[0]], table[word[0]-'a'+'A'] = true, true
	}
	return table
}()

func (s *sight) meaning(word []byte) meaning {
	if len(word) < 2 || len(word) > 12 || !mayMean[word[0]] {
		return nothing
	}
	var lower [12]byte
	for i, c := range word {
		lower[i] = lowerASCII(c)
	}
	return meanings[string(lower[:len(word)])]
}
