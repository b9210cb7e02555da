package wire

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// walker goes through one line, token by token, and fills an envelope.
type walker struct {
	dec  jsontext.Decoder
	buf  bytes.Buffer // the line, which the decoder reads in place
	name []byte       // of the member last read, when it had to be unescaped
	line []byte
	from Side
	wide bool // an object may have too many members: look at each token
	e    Envelope
	seen [topError + 1]bool // the members of the message, by index in topNames
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
	// Counting is many times cheaper than looking at each token.
	w.wide = len(line) > MaxMembers && bytes.Count(line, []byte(`"`)) > 2*MaxMembers
}

// release lets go of line, and of w, which may not be used after.
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

// members reads an object, each member with read, which gets its index in
// table or unknown and must read the value.
func (w *walker) members(table names, read func(index int) error) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for n := 0; w.dec.PeekKind() != '}'; n++ {
		quoted, err := w.dec.ReadValue() // a name that comes twice is an error
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

// batch tells an array from a line of a log that begins with a bracket.
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

// object reads an object, each member with read, and notes where it lies. Any
// other value is the fault wrong.
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

// value reads any value and notes where it lies.
func (w *walker) value(s *Span) error {
	start := w.start()
	if err := w.skip(); err != nil {
		return err
	}
	*s = Span{start, int(w.dec.InputOffset())}
	return nil
}

// start returns where the value begins that belongs to the name just read.
func (w *walker) start() int {
	i := int(w.dec.InputOffset())
	for i < len(w.line) && (bytes.IndexByte(betweenTokens, w.line[i]) >= 0) {
		i++
	}
	return i
}

// scalar reads a value that should not be an object or array, and returns it
// raw.
func (w *walker) scalar(s *Span) ([]byte, error) {
	if err := w.value(s); err != nil {
		return nil, err
	}
	return s.Of(w.line), nil
}

// skip reads one value, whatever it is.
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

// betweenTokens are the bytes that may stand before a value of a member.
var betweenTokens = []byte(" \t\r\n:")

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
