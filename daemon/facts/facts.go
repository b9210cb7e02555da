// Package facts determines what is true of a call, so that rules can refer to what a call does
// instead of to the name of a tool.
//
// Some facts need no memory: secret (an argument contains a credential), secret-place (an
// argument names a place where credentials are kept), acts and sends (what the tool does
// according to its name), outside (a path leads out of the project), and ours (an argument names
// something of ThoughtGate).
//
// The other facts depend on earlier messages of the session. An attack on an agent through what
// it reads must name things: a destination and, often, a tool. So each session has a small memory
// of places (mail addresses, hosts, account numbers) with the first to name each of them, and of
// the tools that servers named. planted is a place that a server named first, prompted a tool
// that the text of a server named, new-place a place to which nothing was sent before. The memory
// holds a bounded number of hashes, is updated with each message of a server before the agent can
// read it, and ends with the session.
//
// The examined text is untrusted and may be crafted. So it is normalized first (full-width
// letters, hidden characters, escapes, base64), and all of it is examined whatever its size. Only
// the regular expressions can take long, and they have a budget. A call that exhausts the budget
// has the fact secret: it contains more that looks like credentials than could be examined.
//
// A false alarm costs a person's attention, and makes the next question less likely to be read.
// So a placeholder, a label, an example, the name of a variable or a page token is not a secret,
// and prose that mentions a place does not count as access to it.
//
// The package is larger than most, because all facts follow from one pass over the same text, in
// the same forms and split into the same words. Parts of it would have to share nearly all of
// their helpers, and a form that one of them overlooks is a way past it:
//
//	facts, walk, beside, texts  a call: its members, its texts, and what is examined of each
//	clean, encoded, fold        the forms in which a text can be read
//	scan, rules, forms, names   secrets
//	places, secretplaces        places where credentials are kept
//	toolname                    what the name of a tool says
//	ours, follow, paths         what a call names in the file system
//	owntools, losses            what a tool of the agent itself does, and what would be lost
//	sight, hosts, namings       what a text names: mailboxes, hosts, accounts, tools
//	hostdata                    data that a host name carries
//	memory, observe, recall     what was said in a session, and what follows for a call
//	steer, form                 text of a server that steers, and its forms
//	redact                      the same secrets, replaced in what is recorded
package facts

import (
	"bytes"
	"context"
	"hash/maphash"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
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
	Suspicious  = "smelly" // for forms; for definitions, the pins set it

	// Of the agent's own tools.
	Destroys    = "destroys"
	Uploads     = "uploads"
	Installs    = "installs"
	NetworkCode = "network-code"
	Opaque      = "opaque"
	Remote      = "remote"
)

const (
	// budget is the number of bytes on which expressions are tried per call. It takes at most a
	// quarter of a second.
	budget = 8 << 20
	// maxFactsPerName is the maximum number of facts with one name per call. More would not help a person.
	maxFactsPerName = 8
)

// Options configures a Finder.
type Options struct {
	// Home is the folder for which ~ stands.
	Home string
	// Ours returns the absolute paths that a call must not touch without a question: folders with
	// everything in them, files, and, with * at the end, all paths with that prefix. It is called
	// for each call, must be fast, and must be safe for concurrent use. May be nil.
	Ours func() []string
	// OnLoss is called when the memory of a session discards something or a message could not be
	// examined completely: the first time, and then whenever the number has doubled. It must be
	// safe for concurrent use. May be nil.
	OnLoss func(Loss)
	// OnSteer is called when a server sends text that is worded to steer a model: for the first
	// such message of a session, and then whenever their number has doubled. It must be safe for
	// concurrent use. May be nil.
	OnSteer func(Steer)
}

// Finder finds facts. It is safe for concurrent use.
type Finder struct {
	own      *protectedPaths
	loss     func(Loss)
	steer    func(Steer)
	seed     maphash.Seed
	sessions sessions
	names    toolNames
	sights   sync.Pool
	looks    sync.Pool
}

// New returns a Finder with an empty memory.
func New(o Options) *Finder {
	return &Finder{own: newOwn(o), loss: o.OnLoss, steer: o.OnSteer, seed: maphash.MakeSeed(), sessions: sessions{each: map[owner]*memory{}}}
}

// Of returns the facts of c, in the order of the arguments, followed by those from the memory. A
// place that c is the first in its session to name counts as named by the agent from then on. If
// ctx is done, Of returns early with an incomplete result.
func (f *Finder) Of(ctx context.Context, c *gate.Call) []gate.Fact {
	l := f.look(ctx, c)
	defer f.looked(l)
	l.find()
	return l.facts
}

// find finds the facts of the call and, if l.named is set, what it names.
func (l *inspection) find() {
	c := l.call
	if !l.pathsOnly {
		l.startRecall()
	}
	switch mcp.SubjectKind(c.Method) {
	case mcp.Tool:
		if !l.pathsOnly && l.tool != "" {
			l.toolName()
		}
	case mcp.Resource:
		l.uri(c.Subject, here)
		l.recall.argument(&l.walk, nil, []byte(c.Subject), false)
	}
	if isOwnTool(c) && c.Subject != agenthook.MCP {
		l.ownTool()
	} else {
		l.json(c.Arguments())
	}
	l.walkBeside()
	if l.named != nil {
		l.nameJoined()
	}
	if l.pathsOnly {
		return
	}
	l.inParts()
	l.joined()
	l.recall.conclude()
	if c.Side == wire.FromServer && c.Method == "elicitation/create" {
		l.form()
	}
}

// uri examines a URI in each spelling.
func (l *inspection) uri(text string, at where) {
	for i, spelling := range uri.Spellings(text) {
		text := []byte(spelling)
		l.text(text, manner{secrets: i == 0, places: true}, at)
		l.ours(text, false, at)
	}
}

// inspection is the examination of one call.
type inspection struct {
	ctx       context.Context // of the judgement that needs the facts
	finder    *Finder
	call      *gate.Call
	budget    int
	tool      string           // the name of the called tool; "" if it says nothing
	local     bool             // what the arguments say stays on this machine
	removes   bool             // the tool's name says that it removes what it names
	env       bool             // the tool's name says that it is about variables of the environment
	follow    int              // number of paths whose links were followed
	files     map[inode]string // files of ours; loaded when a path could be another name of one
	own       []string         // paths of ours; loaded when needed
	facts     []gate.Fact
	recall    *recall     // nil unless an agent sent the message
	named     *gate.Paths // receives the paths that the call names; may be nil
	pathsOnly bool        // restricts the look to them
	work      int         // bytes examined for secrets and places; for tests of the cost of hostile text

	kept
}

// kept holds the buffers of a look that the next one reuses.
type kept struct {
	roots  []string // folders that the arguments name
	parts  []string // possible names in these folders
	params []byte   // without the arguments
	led    map[relativePath]resolvedPath

	pieces pieces
	walk   walk
	around beside
	path   where // of walk
	texts  texts
	memory recall
}

// look starts to examine c. The caller must pass the result to looked.
func (f *Finder) look(ctx context.Context, c *gate.Call) *inspection {
	l, ok := f.looks.Get().(*inspection)
	if !ok {
		l = &inspection{}
		l.path = l.walk.path
		l.texts.begin(l)
	}
	l.ctx, l.finder, l.call, l.budget, l.tool = ctx, f, c, budget, calledTool(c)
	return l
}

// isCanceled reports whether the result of l is no longer needed.
func (l *inspection) isCanceled() bool { return l.ctx.Err() != nil }

// looked returns l to the pool. The pool retains nothing of the call.
func (f *Finder) looked(l *inspection) {
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
	*l = inspection{kept: l.kept}
	l.roots, l.parts = l.roots[:0], l.parts[:0]
	l.pieces.reset()
	f.looks.Put(l)
}

// where returns the path of a text in the arguments. It is called only when there is something to
// report.
type where func() string

func here() string { return "" }

// add adds a fact, at most once per member. It reports whether more facts of this name are
// wanted.
func (l *inspection) add(name, detail, member string) (more bool) {
	return l.addFact(gate.Fact{Name: name, Detail: detail, Member: member})
}

func (l *inspection) addFact(new gate.Fact) (more bool) {
	if l.local && new.Name == Secret {
		return true
	}
	n := 0
	for _, f := range l.facts {
		if f.Name == new.Name {
			if f.Member == new.Member {
				return true
			}
			n++
		}
	}
	if n < maxFactsPerName {
		l.facts = append(l.facts, new)
	}
	return n+1 < maxFactsPerName
}

func (l *inspection) json(raw []byte) {
	if len(raw) == 0 {
		return
	}
	l.walk.raw = raw
	if err := l.walk.run(l); err != nil {
		l.add(Secret, "the arguments could not be read completely", "")
	}
}

// member examines a member name, which is text like any other.
func (l *inspection) member(w *walk, name span) {
	if l.isCanceled() {
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

func (l *inspection) enter(*walk) bool { return true }

func (l *inspection) value(w *walk, kind jsontext.Kind, v span) {
	if l.isCanceled() {
		return
	}
	name, text := w.name(), w.said(v)
	prose := kind == '"' && isOneOf(proseNames, name)
	switch {
	case kind != '0' && kind != '"':
		return
	case kind == '0':
		l.checkMember(w, name, text)
	default:
		if l.env && isSecretVariable(text) {
			l.add(SecretPlace, "names the variable "+string(text)+", which holds a credential", w.path())
		}
		is := l.checkMember(w, name, text)
		l.text(text, manner{secrets: !is, places: true, prose: prose}, l.path)
		l.ours(text, prose, l.path)
		if !l.pieces.add(text, v) {
			l.inParts()
			l.pieces.discardExamined()
		}
		if read, ok := tidied(text); ok && read.Text != string(text) {
			l.text([]byte(read.Text), manner{places: true, prose: prose}, l.path)
			l.ours([]byte(read.Text), prose, l.path)
		}
	}
	l.recall.argument(w, name, text, prose)
}

func (l *inspection) pair(w *walk, name, value span) {
	l.checkMember(w, w.said(name), w.said(value))
}
