// Package facts finds out what is true of a call, so that rules can ask by what
// a call does instead of by what a tool is called.
//
// Some facts need no memory: secret (an argument carries a credential),
// secret-place (it names where credentials live), acts and sends (what the
// tool's name says it does), outside (a path leads out of the project), and ours
// (it names something of ThoughtGate's).
//
// The others come of what was said before in the session. Whoever attacks an
// agent through what it reads has to name things: where to send to, and often
// with which tool. So each session has a small memory of places (mail addresses,
// hosts, numbers of accounts), with who said each of them first, and of tools that
// servers named. planted is a place that a server brought up, prompted a tool
// that a server's text named, new-place one that nothing was sent to before. The
// memory holds hashes of what was said, so many at most; it is fed with what
// servers say before the agent can read it, and it ends with the session.
//
// What is looked at is text that somebody else chose, perhaps with care. So it
// is folded first (full width letters, hidden characters, escapes, base64), all
// of it is looked at whatever its size, and the one part that can take long, the
// regular expressions, has a budget. A call that spends it has the fact secret:
// it holds more that looks like credentials than could be looked at.
//
// A false alarm costs a person's patience, and with it the worth of the next
// question. So what is a placeholder, a label, an example, the name of a variable
// or a page token is no secret, and prose that speaks of a place does not reach
// for it.
package facts

import (
	"bytes"
	"context"
	"hash/maphash"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The names of the facts.
const (
	Secret      = "secret"
	SecretPlace = "secret-place"
	Acts        = "acts"
	Sends       = "sends"
	Ours        = "ours"
	Planted     = "planted"
	Prompted    = "prompted"
	NewPlace    = "new-place"
	Outside     = "outside"
	Steered     = "steered"
	Smelly      = "smelly" // of a form; of a definition it is the pins' word
)

const (
	// budget is how many bytes expressions are tried on for one call: a
	// quarter of a second at worst.
	budget = 8 << 20
	// mostOf is how many facts of one name a call has at most; a person is
	// not helped by the ninth.
	mostOf = 8
)

// Options say what a Finder can't know by itself.
type Options struct {
	// Home is what ~ stands for.
	Home string
	// Ours returns the absolute paths of what a call through the gate may not
	// touch unasked: folders with all in them, files, and with * at the end all
	// that begin with what stands before it. It is called for each call, must be quick, and is safe for concurrent use. Nil: none.
	Ours func() []string
	// Loss is told when the memory of a session had to let something go or
	// could not look at all of a message: at first, and then each time that has
	// doubled. It must be safe for concurrent use. Nil: nobody is told.
	Loss func(Loss)
	// Steer is told when a server has said what is worded to steer a model: in a
	// session at first, and then each time that there were twice as many. It must be
	// safe for concurrent use. Nil: nobody is told.
	Steer func(Steer)
}

// Finder finds facts. It is safe for concurrent use.
type Finder struct {
	own      *own
	loss     func(Loss)
	steer    func(Steer)
	seed     maphash.Seed
	sessions sessions
	names    toolNames
	sights   sync.Pool
	looks    sync.Pool
}

// New returns a Finder that remembers nothing yet.
func New(o Options) *Finder {
	return &Finder{own: newOwn(o), loss: o.Loss, steer: o.Steer, seed: maphash.MakeSeed(), sessions: sessions{each: map[owner]*memory{}}}
}

// Of returns what is true of c; what the memory knows comes last, before it the
// order is that of the arguments. What c names and nobody has named before in its
// session is the agent's from then on. It ends early when ctx does: what is returned
// then is not all.
func (f *Finder) Of(ctx context.Context, c *gate.Call) []gate.Fact {
	l := f.look(ctx, c)
	defer f.looked(l)
	l.recalls(true)
	switch mcp.SubjectKind(c.Method) {
	case mcp.Tool:
		l.toolName()
	case mcp.Resource:
		l.uri(c.Subject, here)
		l.recall.argument(&l.walk, nil, []byte(c.Subject), false)
	}
	l.json(c.Arguments())
	l.walkBeside()
	l.inParts()
	l.joined()
	l.recall.conclude()
	if c.Side == wire.FromServer && c.Method == "elicitation/create" {
		l.form()
	}
	return l.facts
}

// uri looks at a URI in each way in which it is read.
func (l *look) uri(text string, at where) {
	for i, spelling := range uri.Spellings(text) {
		text := []byte(spelling)
		l.text(text, manner{secrets: i == 0, places: true}, at)
		l.ours(text, false, at)
	}
}

// look is one look at one call.
type look struct {
	ctx     context.Context // of the judgement that the look is for
	finder  *Finder
	call    *gate.Call
	budget  int
	removes bool             // the tool's name says that it takes away what it names
	follow  int              // how many paths' links have been followed, each path once
	files   map[inode]string // of ours, once one of them could have another name
	own     []string         // paths of ours, once they were needed
	facts   []gate.Fact
	recall  *recall // nil for what no agent says
	// recallOnly: who was sent to is asked, and nothing else.
	recallOnly bool
	named      *gate.Paths // where to put the paths that are named; nil: nobody wants to know
	work       int         // bytes looked at for secrets and places, for the tests of what hostile text costs

	kept
}

// kept is what a look has room in, which the next one uses again.
type kept struct {
	roots  []string // folders that the arguments name
	parts  []string // what may be names within them
	params []byte   // without the arguments
	led    map[begun]leads

	pieces pieces
	walk   walk
	around beside
	path   where // of walk
	texts  texts
	memory recall
}

// look begins a look at c; looked ends it.
func (f *Finder) look(ctx context.Context, c *gate.Call) *look {
	l, ok := f.looks.Get().(*look)
	if !ok {
		l = &look{}
		l.path = l.walk.path
		l.texts.begin(l)
	}
	l.ctx, l.finder, l.call, l.budget = ctx, f, c, budget
	return l
}

// over reports that nobody wants to know any more what l finds.
func (l *look) over() bool { return l.ctx.Err() != nil }

// looked gives l back. Nothing of the call is held on to.
func (f *Finder) looked(l *look) {
	l.recall.done(f)
	clear(l.roots)
	clear(l.parts)
	if clear(l.params); cap(l.params) > keptBuffer {
		l.params = nil
	}
	if clear(l.led); l.follow > mostRoots {
		l.led = nil
	}
	l.walk.raw, l.around = nil, beside{}
	*l = look{kept: l.kept}
	l.roots, l.parts = l.roots[:0], l.parts[:0]
	l.pieces.reset()
	f.looks.Put(l)
}

// where says where in the arguments a text stands; it is asked only when there
// is something to say about it.
type where func() string

func here() string { return "" }

// add notes a fact, once for a member, and reports whether more of its name
// are wanted.
func (l *look) add(name, detail, member string) (more bool) {
	return l.addFact(gate.Fact{Name: name, Detail: detail, Member: member})
}

func (l *look) addFact(new gate.Fact) (more bool) {
	n := 0
	for _, f := range l.facts {
		if f.Name == new.Name {
			if f.Member == new.Member {
				return true
			}
			n++
		}
	}
	if n < mostOf {
		l.facts = append(l.facts, new)
	}
	return n+1 < mostOf
}

func (l *look) json(raw []byte) {
	if len(raw) == 0 {
		return
	}
	l.walk.raw = raw
	if err := l.walk.run(l); err != nil {
		l.add(Secret, "the arguments could not be read to their end", "")
	}
}

// member looks at a name: it is text like any other.
func (l *look) member(w *walk, name span) {
	if l.over() {
		return
	}
	text := unquoted(w.raw[name.start:name.end])
	if len(text) >= 8 {
		l.text(text, manner{secrets: true}, l.path)
	}
	if bytes.ContainsAny(text, "/.~$\\") {
		l.ours(text, false, l.path)
	}
	l.recall.member(w, text)
}

func (l *look) enter(*walk) bool { return true }

func (l *look) value(w *walk, kind jsontext.Kind, v span) {
	if l.over() {
		return
	}
	name, text := w.name(), w.said(v)
	prose := kind == '"' && isOneOf(proseNames, name)
	switch {
	case kind != '0' && kind != '"':
		return
	case l.recallOnly:
	case kind == '0':
		l.judged(w, name, text)
	default:
		is := l.judged(w, name, text)
		l.text(text, manner{secrets: !is, places: true, prose: prose}, l.path)
		l.ours(text, prose, l.path)
		if !l.pieces.add(text, v) {
			l.inParts()
			l.pieces.moveOn()
		}
		if read, ok := tidied(text); ok && read.Text != string(text) {
			l.text([]byte(read.Text), manner{places: true, prose: prose}, l.path)
			l.ours([]byte(read.Text), prose, l.path)
		}
	}
	l.recall.argument(w, name, text, prose)
}

func (l *look) pair(w *walk, name, value span) {
	if l.recallOnly {
		return
	}
	l.judged(w, w.said(name), w.said(value))
}
