package facts

import "bytes"

// A text names a tool if one of its words is the name of the tool. Most tool names have a shape
// that other words do not have (send_mail, getUser). Every such word is recorded, since a tool
// may be listed after it was named. A name that is an ordinary word (search) is recorded only
// next to the word tool, or in quotes after an order.

const (
	orderReach = 120 // how far after an order a name still belongs to it
	quoteReach = 8   // how far after an order a quoted word belongs to it
	toolReach  = 4   // maximum distance of a name and the word tool: quotes, a blank
)

// plain examines a word that consists only of letters.
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

// besideTool reports the word before the word tool, and expects a name after it.
func (s *sight) besideTool(w span) {
	s.about = w.end
	if before := s.text[s.last.start:s.last.end]; len(before) >= 3 && w.start-s.last.end <= toolReach && s.last.end > 0 {
		s.names(before, told)
	}
}

// isQuoted reports whether w is in quotes right after an order.
func (s *sight) isQuoted(w span) bool {
	if s.order < 0 || w.start-s.order > quoteReach || w.start == 0 || w.end == len(s.text) || w.end-w.start < 3 || w.end-w.start > longestTool {
		return false
	}
	before, after := s.text[w.start-1], s.text[w.end]
	return before == after && (before == '`' || before == '\'' || before == '"')
}

// isAbout reports whether a preceding word declares w to be a tool: w follows closely and is not
// defined there.
func (s *sight) isAbout(w span) bool {
	if s.about < 0 || w.start-s.about > toolReach || w.end-w.start < 3 || w.end-w.start > longestTool {
		return false
	}
	return (w.end == len(s.text) || s.text[w.end] != '(' && s.text[w.end] != '<') && s.meaning(s.text[w.start:w.end]) != names
}

// names reports the name of a tool.
func (s *sight) names(name []byte, how strength) {
	exact, letters := s.toolKeys(name)
	s.to.named(exact, how)
	if how == told {
		s.to.named(letters, how)
	}
}

// identifiers reports the parts of a word that have the shape of a name of more than one word.
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
	if i := bytes.LastIndex(name, []byte("__")); i > 0 { // the form in which agents call the tools of a server
		s.names(name[i+2:], how)
	}
	switch string(name) {
	case "tool_name", "toolName", "function_name":
		s.about = w.end
	}
}

// hasParts reports whether name has more than one word, separated by punctuation or by a capital.
func hasParts(name []byte) bool {
	for i := 1; i < len(name); i++ {
		made := madeOf[name[i]]
		if made&(ofUnder|ofDash) != 0 || made == ofUpper && madeOf[name[i-1]]&(ofLower|ofDigit) != 0 {
			return true
		}
	}
	return false
}

// context returns how the word w names a tool, given its surroundings.
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

// beforeTool reports whether the word tool or function follows closely after at.
func (s *sight) beforeTool(at int) bool {
	for i := at; i < len(s.text) && i-at <= toolReach; i++ {
		if made := madeOf[s.text[i]]; made != 0 {
			return bytes.HasPrefix(s.text[i:], []byte("tool")) || bytes.HasPrefix(s.text[i:], []byte("function"))
		}
	}
	return false
}

// meaning describes how a word relates to tools.
type meaning uint8

const (
	nothing meaning = iota
	tells           // orders something
	says            // declares something to be a tool
	names           // stands between such a word and the name
	defines         // in code, defines or imports what follows
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

// mayMean marks the first letters of these words, whose lengths are 2 to 12.
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
	return lookUp(meanings, word)
}
