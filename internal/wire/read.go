package wire

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// pooled is the longest line, in bytes, after which a walker is reused. After longer
// lines its buffers may be large.
const pooled = 64 << 10

var walkers = sync.Pool{New: func() any { return new(walker) }}

// fromServer allows lone surrogate escapes, which occur where JavaScript cut a text. The
// option also allows invalid UTF-8, so checkText looks for that first.
var fromServer = []jsontext.Options{jsontext.AllowInvalidUTF8(true)}

// Read parses line, one message written by from, into e. The spans of e are ranges of
// line. line has no line end; it is neither changed nor retained. An error is a
// *[Refusal], and e must not be used then. Read is safe for concurrent use and does not
// allocate for small messages with known methods.
func Read(line []byte, from Side, e *Envelope) error {
	if refusal := read(line, from, e); refusal != nil {
		return refusal.in(line, from)
	}
	return nil
}

func read(line []byte, from Side, e *Envelope) *Refusal {
	switch {
	case bytes.IndexByte(line, '\r') >= 0:
		return errBareCR
	case bytes.IndexByte(line, '\n') >= 0:
		return errLineBreak
	}
	return readText(line, from, e)
}

// ReadText is like [Read] for a message that may have line breaks between its tokens, in
// framings other than lines. The refusal has no id.
func ReadText(text []byte, from Side, e *Envelope) error {
	if refusal := readText(text, from, e); refusal != nil {
		return refusal.plain()
	}
	return nil
}

func readText(line []byte, from Side, e *Envelope) *Refusal {
	if fault := checkText(line, from); fault != nil {
		return fault
	}
	w := walkers.Get().(*walker)
	w.begin(line, from)
	err := w.message()
	*e = w.e
	w.release(line)
	if err != nil {
		return faultOf(err)
	}
	return nil
}

// Fields returns the values of the named members of the object that text consists of, each
// the zero Span if it is absent. It reads text as strictly as [ReadText] reads a message
// of a server.
func Fields(text []byte, name ...string) ([]Span, error) {
	if fault := checkText(text, FromServer); fault != nil {
		return nil, fault.plain()
	}
	w := walkers.Get().(*walker)
	w.begin(text, FromServer)
	defer w.release(text)
	values := make([]Span, len(name))
	var whole Span
	err := w.object(&whole, errNotObject, name, func(index int) error {
		if index == unknown {
			return w.skip()
		}
		return w.value(&values[index])
	})
	if err == nil {
		if _, end := w.dec.ReadToken(); end != io.EOF {
			err = errTrailing
		}
	}
	if err != nil {
		return nil, faultOf(err).plain()
	}
	return values, nil
}

// checkText looks for faults that are found before tokens are read.
func checkText(line []byte, from Side) *Refusal {
	switch {
	case len(line) > MaxMessage:
		return errTooLong
	case from == FromServer && !utf8.Valid(line):
		return errUTF8
	case tooDeep(line):
		return errDepth
	}
	return nil
}

// in returns r as the refusal of line, with the id if there is exactly one.
func (r *Refusal) in(line []byte, from Side) *Refusal {
	refusal := *r
	var s scan
	s.feed(line)
	if id, ok := s.id(); ok {
		// A line that is both request and answer is treated as what its writer mostly
		// sends.
		refusal.ID = id
		refusal.Answer = s.asks() || from == FromAgent && s.member[topMethod]
	}
	return &refusal
}

// tooDeep reports whether more than MaxDepth objects and arrays are open at once in line.
// For most lines a count is enough.
func tooDeep(line []byte) bool {
	return len(line) > MaxDepth &&
		bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{")) > MaxDepth &&
		nesting(line) > MaxDepth
}

// nesting returns the maximum number of objects and arrays open at once in line. Up to
// the first fault it finds strings as the decoder does, so it never returns less than the
// decoder would encounter.
func nesting(line []byte) int {
	depth, most := 0, 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			i += stringLength(line[i+1:])
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	return most
}

// stringLength returns the length of the rest of the string that text starts in,
// including the closing quote.
func stringLength(text []byte) int {
	for n := 0; ; n++ {
		i := bytes.IndexByte(text[n:], '"')
		if i < 0 {
			return len(text)
		}
		n += i
		if !endsEscaped(text[:n]) {
			return n + 1
		}
	}
}

// walker reads one line token by token and fills an envelope.
type walker struct {
	dec  jsontext.Decoder
	buf  bytes.Buffer // the line, which the decoder reads in place
	name []byte       // of the last member, if it had to be unescaped
	line []byte
	from Side
	wide bool // an object may have too many members: check each token
	e    Envelope
	seen [topError + 1]bool // members of the message, by index in topNames
}

func (w *walker) begin(line []byte, from Side) {
	w.buf = *bytes.NewBuffer(line)
	if from == FromServer {
		w.dec.Reset(&w.buf, fromServer...)
	} else {
		w.dec.Reset(&w.buf)
	}
	w.line, w.from, w.e = line, from, Envelope{}
	w.seen = [len(w.seen)]bool{}
	// Counting quotes is many times cheaper than checking each token.
	w.wide = len(line) > MaxMembers && bytes.Count(line, []byte(`"`)) > 2*MaxMembers
}

// release releases line and w. w must not be used afterwards.
func (w *walker) release(line []byte) {
	w.buf = bytes.Buffer{}
	w.dec.Reset(&w.buf)
	w.line = nil
	if len(line) <= pooled {
		walkers.Put(w)
	}
}

// message reads the whole line.
func (w *walker) message() error {
	switch w.dec.PeekKind() {
	case '{':
	case '[':
		return w.batch()
	default:
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		return errNotObject
	}
	if err := w.members(topNames, w.topMember); err != nil {
		return err
	}
	if _, err := w.dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return w.shape()
}

// members reads an object. It calls read for each member with its index in table or
// unknown; read must read the value.
func (w *walker) members(table names, read func(index int) error) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for n := 0; w.dec.PeekKind() != '}'; n++ {
		quoted, err := w.dec.ReadValue() // fails for a duplicate name
		if err != nil {
			return err
		}
		if n >= MaxMembers {
			return errMembers
		}
		var name []byte
		name, w.name = unquoteName(w.name, quoted)
		index, twin := table.find(name)
		if twin {
			return errTwin
		}
		if err := read(index); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// batch distinguishes an array from a log line that begins with a bracket.
func (w *walker) batch() error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	if w.dec.PeekKind() != '{' {
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
	}
	return errBatch
}

func (w *walker) topMember(index int) error {
	if index != unknown {
		w.seen[index] = true
	}
	switch index {
	case topJSONRPC:
		return w.version()
	case topID:
		return w.id()
	case topMethod:
		return w.method()
	case topParams:
		w.e.Bare = true
		return w.object(&w.e.Params, errParams, paramNames, w.paramMember)
	case topResult:
		if w.dec.PeekKind() == '{' {
			return w.object(&w.e.Result, nil, resultNames, w.resultMember)
		}
		return w.value(&w.e.Result)
	case topError:
		return w.errorObject()
	}
	return w.skip()
}

// object reads an object, calling read for each member, and sets s to its span. If the
// value is not an object, it returns wrong.
func (w *walker) object(s *Span, wrong *Refusal, table names, read func(int) error) error {
	if w.dec.PeekKind() != '{' {
		if err := w.skip(); err != nil {
			return err
		}
		return wrong
	}
	start := w.start()
	err := w.members(table, read)
	*s = Span{start, int(w.dec.InputOffset())}
	return err
}

// value reads any value and sets s to its span.
func (w *walker) value(s *Span) error {
	start := w.start()
	if err := w.skip(); err != nil {
		return err
	}
	*s = Span{start, int(w.dec.InputOffset())}
	return nil
}

// start returns the offset of the value of the member whose name was just read.
func (w *walker) start() int {
	i := int(w.dec.InputOffset())
	for i < len(w.line) && (bytes.IndexByte(betweenTokens, w.line[i]) >= 0) {
		i++
	}
	return i
}

// scalar reads a value that should not be an object or array, and returns it raw.
func (w *walker) scalar(s *Span) ([]byte, error) {
	if err := w.value(s); err != nil {
		return nil, err
	}
	return s.Of(w.line), nil
}

// skip reads any value.
func (w *walker) skip() error {
	if !w.wide {
		_, err := w.dec.ReadValue()
		return err
	}
	for outer := w.dec.StackDepth(); ; {
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		depth := w.dec.StackDepth()
		if depth == outer {
			return nil
		}
		if kind, n := w.dec.StackIndex(depth); kind == '{' && n > 2*MaxMembers {
			return errMembers
		}
	}
}

// betweenTokens are the bytes allowed before the value of a member.
var betweenTokens = []byte(" \t\r\n:")

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func (w *walker) version() error {
	var s Span
	raw, err := w.scalar(&s)
	if err != nil {
		return err
	}
	if raw[0] != '"' {
		return errVersion
	}
	var text []byte
	if text, w.name = unquoteName(w.name, raw); string(text) != "2.0" {
		return errVersion
	}
	return nil
}

func (w *walker) id() error {
	raw, err := w.scalar(&w.e.ID)
	if err != nil {
		return err
	}
	if !validID(raw) {
		return errID
	}
	return nil
}

func (w *walker) method() error {
	var s Span
	raw, err := w.scalar(&s)
	if err != nil {
		return err
	}
	if raw[0] != '"' || len(raw) > 6*MaxMethod {
		return errMethod
	}
	var text []byte
	text, w.name = unquoteName(w.name, raw)
	if !IsMethod(text) {
		return errMethod
	}
	w.e.Method = methodName(text)
	return nil
}

// IsMethod reports whether name can be that of a method: it is visible ASCII, and not too
// long.
func IsMethod(name []byte) bool { return len(name) > 0 && len(name) <= MaxMethod && plain(name) }

func (w *walker) paramMember(index int) error {
	e := &w.e
	e.Bare = e.Bare && (index == paramName || index == paramURI || index == paramArguments)
	switch index {
	case unknown:
		return w.skip()
	case paramArguments:
		if err := w.value(&e.Arguments); err != nil {
			return err
		}
		switch w.line[e.Arguments.Start] {
		case '{':
		case 'n': // the Go SDK writes null for a nil map
			e.Arguments = Span{}
		default:
			return errArguments
		}
		return nil
	case paramMeta:
		if w.dec.PeekKind() == '{' {
			return w.object(&e.Meta, nil, metaNames, w.metaMember)
		}
	}
	return w.value([...]*Span{ // in the order of paramNames
		&e.Name, &e.URI, &e.Arguments, &e.Meta, &e.RequestID, &e.Task, &e.TaskID,
		&e.RequestState, &e.InputResponses, &e.InputRequests, &e.Mode, &e.Ref, &e.Notifications,
	}[index])
}

func (w *walker) metaMember(index int) error {
	switch index {
	case metaProgressToken:
		return w.value(&w.e.ProgressToken)
	case metaVersion:
		if err := w.value(&w.e.Version); err != nil {
			return err
		}
		if w.line[w.e.Version.Start] != '"' {
			return errMetaVersion
		}
		w.e.Modern = true
		return nil
	}
	return w.skip()
}

func (w *walker) resultMember(index int) error {
	e := &w.e
	switch index {
	case resultIsError:
		var s Span
		raw, err := w.scalar(&s)
		e.IsError = bytes.Equal(raw, []byte("true"))
		return err
	case unknown:
		return w.skip()
	}
	return w.value([...]*Span{&e.ResultType, &e.InputRequests, &e.CreatedTask, &e.CreatedTaskID}[index-1]) // the rest of resultNames
}

// errorObject reads the error member: {integer code, string message}.
func (w *walker) errorObject() error {
	var code, message bool
	err := w.object(&w.e.Error, errErrorShape, errorNames, func(index int) error {
		var s Span
		switch index {
		case errorCode:
			raw, err := w.scalar(&s)
			if err != nil {
				return err
			}
			w.e.Code, code = Integer(raw)
			return nil
		case errorMessage:
			message = w.dec.PeekKind() == '"'
		}
		return w.skip()
	})
	if err == nil && !(code && message) {
		return errErrorShape
	}
	return err
}

// shape determines the kind of the message from its members.
func (w *walker) shape() error {
	seen := &w.seen
	asks := seen[topMethod] || seen[topParams]
	answers := seen[topResult] || seen[topError]
	switch {
	case !seen[topJSONRPC]:
		return errVersion
	case asks && answers:
		return errMixed
	case seen[topResult] && seen[topError]:
		return errBoth
	case seen[topMethod] && seen[topID]:
		w.e.Kind = Request
	case seen[topMethod]:
		w.e.Kind = Notification
	case seen[topResult] && seen[topID]:
		w.e.Kind = Result
	case seen[topResult]:
		return errResultNoID
	case seen[topError] && !seen[topID] && w.from == FromAgent:
		return errErrorNoID
	case seen[topError]:
		w.e.Kind = Error
	case seen[topID]:
		return errNeither
	default:
		return errShapeless
	}
	return nil
}

// methodName returns name as a string. Names of MCP's methods are not allocated.
func methodName(name []byte) string {
	if known, ok := methods[string(name)]; ok {
		return known
	}
	return string(name)
}
