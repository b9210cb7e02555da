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
// that the text of a server named, new-place a place to which nothing was sent before; steered says
// that the text of a server was worded to steer a model. The memory
// holds a bounded number of hashes, is updated with each message of a server before the agent can
// read it, and ends with the session.
//
// The examined text is untrusted and may be crafted. So it is normalized first (full-width
// letters, hidden characters, escapes, base64), and all of it is examined whatever its size. Only
// the regular expressions can take long, and they have a budget. A call that exhausts the budget
// has the fact secret: it contains more that looks like credentials than could be examined.
//
// A server's form has the fact smelly if it asks for credentials by name. What follows from the
// definition of a tool is found by package pin: changed, unlisted, smelly, and acts, which has both
// sources. Package gate has the names.
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
//	owntools, losses, moves     what a tool of the agent itself does, and what would be lost
//	grain                       what a grant may cover of a command
//	sight, hosts, namings       what a text names: mailboxes, hosts, accounts, tools
//	hostdata                    data that a host name carries
//	memory, observe, recall     what was said in a session, and what follows for a call
//	steer, form                 text of a server that steers, and its forms
//	redact                      the same secrets, replaced in what is recorded
package facts

import (
	"bytes"
	"cmp"
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
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
	// Past says that calls were made long ago, and the disk was another one then. So nothing on it
	// is looked at: paths count as they are written, and whether a call has lost something is
	// unclear, see [gate.Judgement].
	Past bool
	// Patience is how long it is counted what a call would destroy (300 ms).
	Patience time.Duration
}

// Finder finds facts. It is safe for concurrent use.
type Finder struct {
	own         *protectedPaths
	loss        func(Loss)
	steer       func(Steer)
	seed        maphash.Seed
	sessions    sessions
	names       toolNames
	sights      sync.Pool
	inspections sync.Pool
	patience    time.Duration // how long it is counted what a call would destroy
}

// New returns a Finder with an empty memory.
func New(o Options) *Finder {
	return &Finder{own: newOwn(o), loss: o.OnLoss, steer: o.OnSteer, seed: maphash.MakeSeed(), sessions: sessions{each: map[owner]*memory{}}, patience: cmp.Or(o.Patience, lossDeadline)}
}

// Of returns the facts of c, in the order of the arguments, followed by those from the memory. A
// place that c is the first in its session to name counts as named by the agent from then on. If
// ctx is done, Of returns early with an incomplete result.
func (f *Finder) Of(ctx context.Context, c *gate.Call) []gate.Fact {
	in := f.inspect(ctx, c)
	defer f.finish(in)
	in.find()
	return in.facts
}

// find finds the facts of the call and, if in.named is set, what it names.
func (in *inspection) find() {
	c := in.call
	if !in.pathsOnly {
		in.startRecall()
		c.Loses, c.Extent, c.Grain, c.Unclear = nil, nil, nil, ""
		if c.Remote && c.Side == wire.FromAgent {
			in.add(gate.FactRemote, "is sent to "+strings.Join(c.Command, " "), "")
		}
	}
	switch mcp.SubjectKind(c.Method) {
	case mcp.Tool:
		if !in.pathsOnly && in.tool != "" {
			in.toolName()
		}
	case mcp.Resource:
		in.uri(c.Subject, atTop)
		in.recall.argument(&in.walk, nil, []byte(c.Subject), false)
	}
	if isOwnTool(c) && c.Subject != agenthook.MCP {
		in.ownTool()
	} else {
		in.json(c.Arguments())
	}
	in.walkBeside()
	if in.named != nil {
		in.nameJoined()
	}
	if in.pathsOnly {
		return
	}
	in.inParts()
	in.joined()
	in.recall.conclude()
	if c.Side == wire.FromServer && c.Method == "elicitation/create" {
		in.form()
	}
}

// uri examines a URI in each spelling.
func (in *inspection) uri(text string, at where) {
	for i, spelling := range uri.Spellings(text) {
		text := []byte(spelling)
		in.text(text, manner{secrets: i == 0, places: true}, at)
		in.ours(text, false, at)
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
	entries   bool             // links that paths name themselves are not followed
	env       bool             // the tool's name says that it is about variables of the environment
	follow    int              // number of paths whose links were followed
	files     map[inode]string // files of ours; loaded when a path could be another name of one
	own       []string         // paths of ours; loaded when needed
	facts     []gate.Fact
	recall    *recall     // nil unless an agent sent the message
	named     *gate.Paths // receives the paths that the call names; may be nil
	pathsOnly bool        // restricts the inspection to them
	work      int         // bytes examined for secrets and places; for tests of the cost of hostile text

	kept
}

// kept holds the buffers of an inspection that the next one reuses.
type kept struct {
	roots  []string // folders that the arguments name
	parts  []string // possible names in these folders
	params []byte   // without the arguments
	led    map[relativePath]resolvedPath

	pieces       pieces
	walk         walk
	around       beside
	path         where // of walk
	texts        texts
	recallBuffer recall
}

// inspect starts to examine c. The caller must pass the result to finish.
func (f *Finder) inspect(ctx context.Context, c *gate.Call) *inspection {
	in, ok := f.inspections.Get().(*inspection)
	if !ok {
		in = &inspection{}
		in.path = in.walk.path
		in.texts.begin(in)
	}
	in.ctx, in.finder, in.call, in.budget, in.tool = ctx, f, c, budget, calledTool(c)
	return in
}

// isCanceled reports whether the result of in is no longer needed.
func (in *inspection) isCanceled() bool { return in.ctx.Err() != nil }

// finish returns in to the pool. The pool retains nothing of the call.
func (f *Finder) finish(in *inspection) {
	in.recall.done(f)
	clear(in.roots)
	clear(in.parts)
	if clear(in.params); cap(in.params) > keptBuffer {
		in.params = nil
	}
	if clear(in.led); in.follow > mostRoots {
		in.led = nil
	}
	in.walk.raw, in.around = nil, beside{}
	*in = inspection{kept: in.kept}
	in.roots, in.parts = in.roots[:0], in.parts[:0]
	in.pieces.reset()
	f.inspections.Put(in)
}

// where returns the path of a text in the arguments. It is called only when there is something to
// report.
type where func() string

func atTop() string { return "" }

// add adds a fact, at most once per member. It reports whether more facts of this name are
// wanted.
func (in *inspection) add(name, detail, member string) (more bool) {
	return in.addFact(gate.Fact{Name: name, Detail: detail, Member: member})
}

func (in *inspection) addFact(new gate.Fact) (more bool) {
	if in.local && new.Name == gate.FactSecret {
		return true
	}
	n := 0
	for _, f := range in.facts {
		if f.Name == new.Name {
			if f.Member == new.Member {
				return true
			}
			n++
		}
	}
	if n < maxFactsPerName {
		in.facts = append(in.facts, new)
	}
	return n+1 < maxFactsPerName
}

func (in *inspection) json(raw []byte) {
	if len(raw) == 0 {
		return
	}
	in.walk.raw = raw
	if err := in.walk.run(in); err != nil {
		in.add(gate.FactSecret, "the arguments could not be read completely", "")
	}
}

// member examines a member name, which is text like any other.
func (in *inspection) member(w *walk, name span) {
	if in.isCanceled() {
		return
	}
	text := unquoted(w.raw[name.start:name.end])
	if len(text) >= 8 {
		in.text(text, manner{secrets: true}, in.path)
	}
	if bytes.ContainsAny(text, "/.~$\\") {
		in.ours(text, false, in.path)
	}
	in.recall.member(w, text)
}

func (in *inspection) enter(*walk) bool { return true }

func (in *inspection) value(w *walk, kind jsontext.Kind, v span) {
	if in.isCanceled() {
		return
	}
	name, text := w.name(), w.said(v)
	prose := kind == '"' && isOneOf(proseNames, name)
	switch {
	case kind != '0' && kind != '"':
		return
	case kind == '0':
		in.checkMember(w, name, text)
	default:
		if in.env && isSecretVariable(text) {
			in.add(gate.FactSecretPlace, "names the variable "+string(text)+", which holds a credential", w.path())
		}
		is := in.checkMember(w, name, text)
		in.text(text, manner{secrets: !is, places: true, prose: prose}, in.path)
		in.ours(text, prose, in.path)
		if !in.pieces.add(text, v) {
			in.inParts()
			in.pieces.discardExamined()
		}
		if read, ok := tidied(text); ok && read.Text != string(text) {
			in.text([]byte(read.Text), manner{places: true, prose: prose}, in.path)
			in.ours([]byte(read.Text), prose, in.path)
		}
	}
	in.recall.argument(w, name, text, prose)
}

func (in *inspection) pair(w *walk, name, value span) {
	in.checkMember(w, w.said(name), w.said(value))
}
