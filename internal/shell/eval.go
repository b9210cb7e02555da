package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// evaluator walks over the statements of a line.
type evaluator struct {
	line     *Line
	funcs    []*function
	named    map[string][]*function // by their names
	files    map[string]string      // what the line itself wrote into files, as far as its text tells
	aliases  map[string]Word        // of git, which the line has set by git config
	holes    []part
	steps    int
	depth    int
	spent    int // bytes of texts and words
	unrolled int
	pending  []int // numbers in place of commands that write to >(...), below 0
	nPending int
	visited  int // nodes that were looked at besides
	stopped  bool
}

// newEvaluator returns an evaluator that adds to line.
func newEvaluator(line *Line) *evaluator {
	return &evaluator{line: line, named: map[string][]*function{}, files: map[string]string{}, aliases: map[string]Word{}}
}

// function is a declared function with the text that it stands in.
type function struct {
	body *syntax.Stmt
	src  string
	pos  int
	end  int

	level   int  // the shell that declares it
	returns bool // it may return early
}

// frame is what surrounds a statement and does not change for those that follow.
type frame struct {
	src        string // the text that the statement stands in
	pos, end   int    // where a nested text stands in the line; pos is -1 for the line itself
	wrappers   []string
	remote     string
	privileged bool
	background bool
	external   bool // functions and aliases do not count
	level      int  // how many shells are between this one and the line's
	stdin      []int
	input      *string
	inputWord  *Word
	env        []Assign
	redirects  []Redirect
	calls      []string // functions that are being called
	locals     *[]*binding
}

// result is what a statement leaves.
type result struct {
	ok, fail state // after success, and after failure
	out      []int // the commands that write to its output
	text     *string
}

// text returns what is written at n.
func (e *evaluator) text(fr frame, n syntax.Node) string {
	pos, end := int(n.Pos().Offset()), int(n.End().Offset())
	if pos < 0 || pos > end || end > len(fr.src) {
		return ""
	}
	return e.shown(fr.src[pos:end])
}

// span returns where n stands in the line.
func (fr frame) span(n syntax.Node) (pos, end int) {
	if fr.pos >= 0 {
		return fr.pos, fr.end
	}
	pos, end = int(n.Pos().Offset()), min(int(n.End().Offset()), len(fr.src))
	return min(pos, end), end
}

// nested returns the frame of a text that a command at [pos, end) runs.
func (fr frame) nested(src string, pos, end int) frame {
	fr.src, fr.pos, fr.end = src, pos, end
	return fr
}

func (fr frame) wrapped(name string) frame {
	fr.wrappers = append(slices.Clip(fr.wrappers), name)
	return fr
}

func (e *evaluator) opaque(o Opaque) {
	if len(o.Detail) > maxDetail {
		o.Detail = strings.ToValidUTF8(o.Detail[:maxDetail], "") + "…"
	}
	if len(e.line.Opaque) <= maxCommands {
		e.line.Opaque = append(e.line.Opaque, o)
	}
}

// stop ends the evaluation: what comes after is not known.
func (e *evaluator) stop(why string) {
	if !e.stopped {
		e.stopped = true
		e.opaque(Opaque{Reason: Limit, Detail: why, Command: -1})
	}
}

func (e *evaluator) step() bool {
	if e.steps++; e.steps > maxSteps {
		e.stop("too many statements and words")
	}
	return !e.stopped
}

func (e *evaluator) spend(bytes int) bool {
	if e.spent += bytes; e.spent > maxText {
		e.stop("its words grow too long")
	}
	return !e.stopped
}

// enter begins something that can stand inside of itself; leave ends it.
func (e *evaluator) enter() bool {
	if e.depth++; e.depth > maxDepth {
		e.stop("nested too deep")
	}
	if e.stopped {
		e.depth--
	}
	return !e.stopped
}

func (e *evaluator) leave() { e.depth-- }

// run evaluates a text in st.
func (e *evaluator) run(text string, st state, fr frame) result {
	if !e.enter() {
		return result{ok: st, fail: st}
	}
	defer e.leave()
	if fr.pos >= 0 && !e.spend(len(text)) {
		return result{ok: st, fail: st}
	}
	stmts, err := parse(text)
	for range maxProducers { // the end of the text ends a here-document
		m := openDocument.FindStringSubmatch(fmt.Sprint(err))
		if m == nil {
			break
		}
		text += "\n" + m[1]
		stmts, err = parse(text)
	}
	if err != nil && strings.Contains(text, "((") {
		// Bash takes what does not fit as arithmetic as two subshells.
		if apart := doubleParens.ReplaceAllString(text, "$1( ("); len(apart) < 2*maxLineBytes {
			if again, err2 := parse(apart); err2 == nil {
				stmts, err, text = again, nil, apart
				if fr.pos < 0 { // what stands where is not the same any more
					fr.pos, fr.end = 0, len(e.line.Text)
				}
			}
		}
	}
	fr.src = text
	if fr.pos < 0 {
		e.line.bare = err == nil && len(stmts) == 1 && isBare(stmts[0])
	}
	r := e.statements(stmts, st, fr)
	if err != nil {
		pos := max(fr.pos, 0)
		if at, ok := err.(syntax.ParseError); ok && fr.pos < 0 {
			pos = int(at.Pos.Offset())
		}
		reason := Unparsed
		if syntax.IsIncomplete(err) || strings.HasSuffix(err.Error(), "` must be followed by a word") {
			reason = Incomplete
		}
		e.opaque(Opaque{Reason: reason, Detail: err.Error(), Command: -1, Remote: fr.remote, Pos: min(pos, len(e.line.Text))})
	}
	return r
}

// openDocument finds the word that should have ended a here-document in what the parser says.
var openDocument = regexp.MustCompile("unclosed here-document `([^\n]*)`$")

var doubleParens = regexp.MustCompile(`(^|[^$(])\(\(`)

// parse returns the statements of text up to the first that bash's grammar does
// not fit.
func parse(text string) (stmts []*syntax.Stmt, err error) {
	if err := parsable(text); err != nil {
		return nil, err
	}
	// The parser is not ours, and the text can come from anybody.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser failed: %v", r)
		}
	}()
	for stmt, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			return stmts, err
		}
		stmts = append(stmts, stmt)
	}
	return stmts, nil
}

// parsable returns an error for a text that the parser would read in another
// way than bash, or with a very deep stack.
func parsable(text string) error {
	if i := strings.IndexByte(text, '\r'); i >= 0 {
		// The parser takes a carriage return as a space, so that it would see
		// comments and line continuations that are none.
		for ; i < len(text); i++ {
			if text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n' || i > 0 && text[i-1] == '\\') {
				return fmt.Errorf("a carriage return at byte %d", i)
			}
		}
	}
	open, keywords, word := 0, 0, 0
	for i := 0; i <= len(text); i++ {
		c := byte(' ')
		if i < len(text) {
			c = text[i]
		}
		switch c {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(0, open-1)
		case '!':
			keywords++
		}
		if c >= 'a' && c <= 'z' {
			continue
		}
		switch text[word:i] {
		case "if", "while", "until", "for", "case", "select", "time", "coproc":
			keywords++
		case "fi", "done", "esac":
			keywords = max(0, keywords-1)
		}
		word = i + 1
		if open > maxNesting || keywords > maxKeywords {
			return fmt.Errorf("nested too deep at byte %d", i)
		}
	}
	return nil
}

// statements evaluates a list.
func (e *evaluator) statements(stmts []*syntax.Stmt, st state, fr frame) result {
	r := result{ok: st, fail: st}
	if !e.enter() {
		return r
	}
	defer e.leave()
	for i, s := range stmts {
		last := e.statement(s, st, fr)
		if i == 0 {
			r.text = last.text
		} else if last.text == nil || r.text == nil || len(*last.text)+len(*r.text) > maxText {
			r.text = nil
		} else {
			text := *r.text + *last.text
			r.text = &text
		}
		r.ok, r.fail, r.out = last.ok, last.fail, union(r.out, last.out)
		next := join(last.ok, last.fail)
		if _, isChain := s.Cmd.(*syntax.BinaryCmd); last.ok.errexit && !last.ok.dead && !s.Negated && !isChain {
			next = last.ok
		}
		if next.dead {
			next = st // what is never reached is listed as if it were
		}
		st = next
		if e.stopped {
			return r
		}
	}
	if r.text != nil && !e.spend(len(*r.text)) {
		r.text = nil
	}
	return r
}

// subshell evaluates a list whose changes end with it.
func (e *evaluator) subshell(stmts []*syntax.Stmt, st state, fr frame) result {
	r := e.statements(stmts, st, fr)
	r.ok, r.fail = st, st
	return r
}

// statement evaluates one statement with its redirections.
func (e *evaluator) statement(s *syntax.Stmt, st state, fr frame) result {
	if !e.step() || !e.enter() {
		return result{ok: st, fail: st}
	}
	defer e.leave()
	begin, opaques := len(e.line.Commands), len(e.line.Opaque)
	outer := e.pending
	e.pending = nil
	if s.Background || s.Coprocess || s.Disown {
		fr.background = true
	}
	_, isCall := s.Cmd.(*syntax.CallExpr)
	_, isDecl := s.Cmd.(*syntax.DeclClause)
	redirects := e.redirects(s.Redirs, st, &fr)
	fr.redirects = nil
	if isCall || isDecl {
		fr.redirects = redirects
	} else if len(redirects) > 0 {
		e.emit(Command{Redirects: redirects, IsGroup: runsCommands(s.Cmd)}, st, fr, s)
	}
	r := e.command(s.Cmd, st, fr)
	e.resolve(begin, opaques)
	e.pending = outer
	if toFile(redirects) {
		e.remember(redirects, r, st)
		r.out, r.text = nil, nil
	}
	if s.Background {
		r.ok, r.fail = st, st
	}
	if s.Negated {
		r.ok, r.fail = r.fail, r.ok
	}
	return r
}

// runsCommands reports whether a statement has others in it.
func runsCommands(c syntax.Command) bool {
	switch c.(type) {
	case nil, *syntax.ArithmCmd, *syntax.TestClause, *syntax.LetClause:
		return false
	}
	return true
}

// resolve puts the last command in the place of those that were pending.
func (e *evaluator) resolve(begin, opaques int) {
	last := len(e.line.Commands) - 1
	resolved := func(list []int) []int {
		if len(list) == 1 && slices.Contains(e.pending, list[0]) {
			return []int{max(last, 0)}
		}
		return list
	}
	if len(e.pending) == 0 {
		return
	}
	for i := begin; i < last; i++ {
		c := &e.line.Commands[i]
		c.Stdin = resolved(c.Stdin)
	}
	for i := opaques; i < len(e.line.Opaque); i++ {
		o := &e.line.Opaque[i]
		o.From = resolved(o.From)
	}
}

// toFile reports whether the output goes to a file instead of the next command.
func toFile(redirects []Redirect) bool {
	return slices.ContainsFunc(redirects, func(r Redirect) bool { return r.Writes && (r.FD == -1 || r.FD == 1) })
}

// remember keeps what the line writes into a file, in case that it runs it.
func (e *evaluator) remember(redirects []Redirect, r result, st state) {
	for _, red := range redirects {
		name := ""
		if len(st.dirs) == 1 {
			name = written(st.dirs[0], red.Target)
		}
		if !red.Writes || name == "" || red.FD > 1 {
			continue
		}
		if r.text == nil || len(e.files) > maxFields {
			delete(e.files, name)
		} else if red.Op == ">>" || red.Op == "&>>" {
			if old, ok := e.files[name]; ok && e.spend(len(old)+len(*r.text)) {
				e.files[name] = old + *r.text
			}
		} else {
			e.files[name] = *r.text
		}
	}
}

// redirects evaluates redirections, and sets what they make of the input of fr.
func (e *evaluator) redirects(rs []*syntax.Redirect, st state, fr *frame) []Redirect {
	var out []Redirect
	for _, r := range rs {
		red := Redirect{Op: r.Op.String(), FD: -1}
		if r.N != nil {
			red.FD = 0
			for _, c := range r.N.Value {
				if c < '0' || c > '9' || red.FD > 1000 {
					red.FD = 1000
					break
				}
				red.FD = red.FD*10 + int(c-'0')
			}
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			red.Target = e.heredoc(r, st, *fr)
			e.feed(red.Target, false, fr)
		case syntax.WordHdoc:
			red.Target = e.single(r.Word, st, *fr)
			e.feed(red.Target, true, fr)
		default:
			words := e.word(r.Word, st, *fr)
			if len(words) != 1 {
				words = []Word{newWord(e.text(*fr, r.Word), unknownPart(e.text(*fr, r.Word), "", nil))}
			}
			red.Target = words[0]
			e.direct(r, &red, fr)
		}
		out = append(out, red)
	}
	return out
}

func (e *evaluator) direct(r *syntax.Redirect, red *Redirect, fr *frame) {
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut:
		red.Reads = true
		red.Writes = r.Op == syntax.RdrInOut
		if red.FD <= 0 {
			fr.stdin = red.Target.From
			e.setInput(fr, nil)
			if text, ok := e.files[red.Target.Text]; ok && len(red.Target.From) > 0 {
				e.setInput(fr, &text)
			}
		}
	case syntax.DplOut, syntax.DplIn:
		// 2>&1 is no file, >&file is.
		name, known := red.Target.Literal()
		red.Writes = r.Op == syntax.DplOut && known && strings.Trim(name, "0123456789-") != ""
	default:
		red.Writes = true
	}
}

// feed makes w the input.
func (e *evaluator) feed(w Word, newline bool, fr *frame) {
	text := e.composed(w.parts)
	if newline {
		text += "\n"
	}
	fr.stdin = w.From
	e.setInput(fr, &text)
}

// setInput sets what the commands of fr read.
func (e *evaluator) setInput(fr *frame, text *string) {
	fr.input, fr.inputWord = text, nil
	if text != nil {
		w := newWord("", e.fill(*text))
		fr.inputWord = &w
	}
}

// heredoc returns the text of a here-document.
func (e *evaluator) heredoc(r *syntax.Redirect, st state, fr frame) Word {
	if r.Hdoc == nil {
		return literalWord("")
	}
	var parts []part
	quoted := r.Word.Lit() == "" || strings.Contains(r.Word.Lit(), `\`)
	for _, p := range r.Hdoc.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			f := &fields{}
			e.doubleQuoted([]syntax.WordPart{p}, st, fr, f)
			f.end()
			for _, field := range f.done {
				parts = append(parts, field...)
			}
			continue
		}
		text := lit.Value
		if !quoted {
			text = unescape(text, "$`\\")
		}
		if r.Op == syntax.DashHdoc {
			lines := strings.Split(text, "\n")
			for i := range lines {
				lines[i] = strings.TrimLeft(lines[i], "\t")
			}
			text = strings.Join(lines, "\n")
		}
		parts = append(parts, e.fill(text)...)
	}
	if !e.spend(size(parts)) {
		parts = nil
	}
	return newWord(e.text(fr, r.Word), parts)
}
