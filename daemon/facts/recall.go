package facts

import (
	"bytes"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// recall compares one call with the memory: did a server name a place in it first, did the text
// of a server name the tool, was something sent to its destination before. It receives each
// argument in turn and concludes at the end, since the last argument may tell what the call does
// ("method": "POST").
type recall struct {
	inspection *inspection
	memory     *memory
	sight      *sight
	deed       deed
	sends      bool
	tool       uint64 // key of the tool with its server
	base64     int    // letters that may still be decoded

	at      *walk    // position of the current argument
	isTo    bool     // the member's name says that the argument is an address
	current []argued // places in the current argument
	all     []argued
}

// argued is a place in an argument.
type argued struct {
	key    uint64
	kind   placeKind
	name   string
	by     string // server that named it first; empty for the agent
	member string // path of the argument

	sure      bool // it cannot be anything else
	addressed bool // the argument consists only of addresses
	isTo      bool // the member's name says that it is an address
	prose     bool
	counter   bool // the member's name says that it counts or dates something
	passing   bool // it is compared, and never recorded as sent to
}

// Limits of the detailed examination. All places are recorded and compared; more facts would not
// help a person.
const (
	mostPlaces     = 256  // places of a call that the agent named first
	mostAlien      = 3    // other words in an argument that is an address, such as a name before <...>
	longestAddress = 4096 // bytes of such an argument
	mostLabels     = 128  // labels of a host; more than 253 letters can have
)

// startRecall starts to compare a call of an agent with the memory; it ignores other messages. What
// the call names first counts as the agent's.
func (in *inspection) startRecall() {
	c, f := in.call, in.finder
	if c.Side != wire.FromAgent {
		return
	}
	r := &in.recallBuffer
	*r = recall{
		inspection: in, memory: f.sessions.of(c.Session, c.Attachment), sight: f.sight(), base64: mostDecoded, deed: reads,
		current: r.current, all: r.all,
	}
	in.recall = r
	r.sight.to, r.sight.tools = r, false
	if in.tool != "" && c.Method == "tools/call" { // other methods read, and receive what a server prepared
		said := &f.names.of(in.tool).said
		r.deed, r.sends = said.deed, said.sends
		r.tool = f.ownTool(c.Server, in.tool)
	}
}

// argument examines a string or number.
func (r *recall) argument(w *walk, name, text []byte, prose bool) {
	if r == nil || len(text) < 3 {
		return
	}
	if r.deed != acts && isOneOf(methodNames, name) && isOneOf(sendingMethods, text) {
		r.sends = true
	}
	if len(text) < 4 {
		return
	}
	r.current = r.current[:0]
	r.at, r.isTo = w, isAddressName(name)
	if !prose && len(text) <= longestURL && (r.isTo || bytes.Contains(text, []byte("://"))) && carriesData(hostIn(text)) {
		r.inspection.add(gate.FactSecret, "its host name carries what looks like encoded data", w.path())
	}
	r.sight.report(text, &r.base64)
	alien := r.sight.otherWords
	if r.tidied(text) {
		alien = 0
	}
	if len(r.current) == 0 {
		return
	}
	addressed := !prose && alien <= mostAlien && len(text) <= longestAddress
	counter, member := isCounter(name), w.path()
	for _, a := range r.current {
		a.addressed, a.isTo, a.prose, a.counter, a.member = addressed, r.isTo, prose, counter, member
		r.all = append(r.all, a)
	}
}

// tidied examines an address as normalized by URL parsers. It reports whether the text is a
// single URL.
func (r *recall) tidied(text []byte) (isURL bool) {
	if read, ok := tidied(text); ok {
		r.sight.hostNamed([]byte(read.Host), true)
		return bytes.IndexByte(bytes.TrimSpace(text), ' ') < 0
	}
	if len(text) > longestAddress || !r.isTo {
		return false
	}
	name := string(bytes.TrimSpace(text))
	for _, one := range append(uri.OtherHosts(name), uri.Host(name)) {
		if isAddress(one) {
			r.sight.hostNamed([]byte(one), true)
		}
	}
	if bytes.ContainsAny(text, "\t\r\n") {
		r.sight.joined = true
		r.sight.report(bytes.Map(func(c rune) rune {
			if c < 0x80 && isBreak(byte(c)) {
				return -1
			}
			return c
		}, text), &r.base64)
		r.sight.joined = false
	}
	return false
}

// member examines the name of a member: some arguments are tables from a destination to its
// content.
func (r *recall) member(w *walk, name []byte) {
	if len(name) >= 6 {
		r.argument(w, nil, name, false)
	}
}

var (
	methodNames    = set("method", "http_method", "httpmethod", "verb")
	sendingMethods = set("post", "put", "patch", "delete")
)

// place receives each place in the current argument.
func (r *recall) place(p place) {
	by := r.memory.claim(p.key)
	if by == "" && p.kind == host {
		by = r.above(p.name)
	}
	if p.joined && by == "" {
		return
	}
	if p.kind == host && isOneOf(metadataHosts, p.name) {
		r.inspection.add(gate.FactSecretPlace, "names "+string(p.name)+", the cloud's own address for credentials", r.at.path())
	}
	if p.kind == host && !p.sure && !r.isTo {
		return // more likely a file name or a member access
	}
	n := len(r.all) + len(r.current)
	if by == "" && n >= mostPlaces || n >= 2*mostPlaces {
		return
	}
	r.current = append(r.current, argued{key: p.key, kind: p.kind, name: string(p.name), sure: p.sure, by: by, passing: p.joined || n >= mostPlaces})
}

func (r *recall) named(uint64, strength) {}

// metadataHosts are the addresses at which machines in a cloud obtain their credentials.
var metadataHosts = set("169.254.169.254", "169.254.170.2", "metadata.google.internal", "100.100.100.200", "fd00:ec2::254", "metadata.azure.internal")

// above returns the server that named a parent domain of name: the owner of the parent domain
// controls where name leads.
func (r *recall) above(name []byte) (by string) {
	if isDigit(name[len(name)-1]) {
		return "" // an IP address
	}
	for range mostLabels {
		i := bytes.IndexByte(name, '.')
		if i < 0 || bytes.IndexByte(name[i+1:], '.') < 0 {
			return ""
		}
		name = name[i+1:]
		if by := r.memory.firstServerToName(r.sight.hash(host, name)); by != "" {
			return by
		}
	}
	return ""
}

// conclude adds the facts that follow from the memory.
func (r *recall) conclude() {
	if r == nil {
		return
	}
	in, c := r.inspection, r.inspection.call
	for i := range r.all {
		if a := &r.all[i]; a.by != "" && (r.deed != reads || r.sends) && r.counts(a) {
			in.addFact(gate.Fact{
				Name: gate.FactPlanted, Detail: fmt.Sprintf("%s was named by server %s before the agent named it", a.name, a.by),
				Member: a.member, Place: a.name, By: a.by,
			})
		}
	}
	if in.tool != "" && c.Method == "tools/call" {
		r.prompted()
		if r.memory.has(&r.memory.harms, r.tool) {
			in.add(gate.FactActs, "its definition says that it is destructive", "")
		}
	}
	if in.tool != "" {
		c.Sends = nil
	}
	if r.sends && in.tool != "" {
		r.newPlaces()
	}
	if by := r.memory.steeringServer(); by != "" {
		in.addFact(gate.Fact{Name: gate.FactSteered, Detail: fmt.Sprintf("text from server %s in this session may steer a model", by), By: by})
	}
}

// counts reports whether the call may carry something to a place. In a call that neither sends
// nor acts, only addresses count: writing a file that mentions a host sends nothing there.
func (r *recall) counts(a *argued) bool {
	strong := r.sends || r.deed == acts
	switch a.kind {
	case mailbox:
		return strong || a.addressed || a.isTo && !a.prose
	case host:
		return a.addressed || strong && !(a.prose && publicHosts[a.name])
	}
	return (strong || a.isTo) && !a.counter
}

// prompted adds a fact if the text of a server named the tool.
func (r *recall) prompted() {
	c := r.inspection.call
	name := r.sight.clean([]byte(r.inspection.tool))
	exact, letters := r.sight.toolKeys(name)
	used := r.memory.has(&r.memory.used, r.tool)
	if by, is := r.memory.namer([2]uint64{exact, letters}, c.Server, r.deed == reads, used); is {
		r.inspection.addFact(gate.Fact{Name: gate.FactPrompted, Detail: fmt.Sprintf("text from server %s named this tool", by), By: by})
	}
}

// done releases the buffers, which retain nothing of the call.
func (r *recall) done(f *Finder) {
	if r != nil {
		f.release(r.sight)
		clear(r.current[:cap(r.current)])
		clear(r.all[:cap(r.all)])
		*r = recall{current: r.current[:0], all: r.all[:0]}
	}
}

// newPlaces adds a fact for each destination to which nothing was sent before, and keeps the
// destinations for Forwarded. In a session that
// has not read anything yet, a single destination does not count: there is nothing to leak, and
// only a definition could have misled the agent, which would add a second destination. A shim
// without a session has no such exception, since its agent may have read through another one.
func (r *recall) newPlaces() {
	c, to := r.inspection.call, r.destinations()
	known := c.Profile == gate.Development || len(to) == 1 && c.Session != "" && !r.memory.hasRead()
	for _, to := range to {
		if !to.passing {
			c.Sends = append(c.Sends, to.key)
		}
		if !known && !r.memory.has(&r.memory.sent, to.key) {
			r.inspection.addFact(gate.Fact{
				Name: gate.FactNewPlace, Detail: fmt.Sprintf("nothing was sent to %s before in this session", to.name),
				Member: to.member, Place: to.name,
			})
		}
	}
}

// destinations returns where the call sends to: the addresses among its arguments or, without
// any, the tool itself.
func (r *recall) destinations() []argued {
	var to []argued
	for i := range r.all {
		if a := &r.all[i]; a.addressed && r.counts(a) {
			to = append(to, *a)
		}
	}
	if len(to) == 0 {
		c := r.inspection.call
		to = []argued{{key: r.tool, name: c.Server + "/" + r.inspection.tool}}
	}
	return to
}

// Forwarded records that c was forwarded to its server: its destinations are no longer new
// places, and what a tool of the agent itself makes is the agent's. Of must have found its facts.
func (f *Finder) Forwarded(c *gate.Call) {
	if c.Method != "tools/call" || c.Side != wire.FromAgent {
		return
	}
	memory := f.sessions.of(c.Session, c.Attachment)
	memory.recordKey(&memory.used, f.ownTool(c.Server, c.Subject))
	keys := &memory.sent
	if isOwnTool(c) && c.Subject != agenthook.MCP {
		keys = &memory.made
	}
	for _, key := range c.Sends {
		memory.recordKey(keys, key)
	}
}

// These tables say what the name of a member implies about a place in its value.

var addressWords = set("to", "cc", "bcc", "recipient", "recipients", "email", "emails", "mail", "mailbox", "address", "addresses",
	"attendee", "attendees", "participant", "participants", "invitee", "invitees", "guest", "guests", "member", "members",
	"collaborator", "collaborators", "contact", "contacts", "url", "urls", "uri", "uris", "link", "links", "href", "host", "hosts",
	"hostname", "domain", "endpoint", "webhook", "callback", "server", "site", "website", "remote", "origin", "destination",
	"iban", "account", "accounts", "acct", "payee", "beneficiary", "phone", "mobile", "tel", "wallet", "card", "routing", "bank")

// isAddressName reports whether a word in the name of a member says that its value is a
// destination: to, webhook_url, recipientAccount.
func isAddressName(name []byte) bool {
	w := split(name)
	return w.has(addressWords)
}

var (
	counterWords = set("id", "ids", "ts", "timestamp", "time", "date", "at", "on", "sha", "hash", "version", "offset", "cursor", "size",
		"limit", "amount", "price", "total", "count", "since", "until", "after", "before", "start", "end", "created", "updated")
	ownedWords = set("chat", "channel", "user", "recipient", "account", "contact", "customer", "phone", "conversation", "room", "group", "person")
)

// isCounter reports whether the name of a member says that a number in it counts, dates or
// identifies something to which nothing can be sent.
func isCounter(name []byte) bool {
	w := split(name)
	return counterWords[string(w.word(-1))] && !w.has(ownedWords)
}

// publicHosts are the hosts to which prose may point although a server named them. Only their
// operators see the requests to them, and texts about software are full of their names.
var publicHosts = set("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "stackoverflow.com", "npmjs.com", "pypi.org", "crates.io",
	"docs.rs", "pkg.go.dev", "go.dev", "golang.org", "rust-lang.org", "doc.rust-lang.org", "python.org", "docs.python.org", "nodejs.org",
	"developer.mozilla.org", "wikipedia.org", "en.wikipedia.org", "w3.org", "ietf.org", "rfc-editor.org", "kernel.org", "debian.org",
	"apache.org", "opensource.org", "semver.org", "keepachangelog.com", "conventionalcommits.org", "json-schema.org", "schema.org",
	"kubernetes.io", "docker.com", "docs.docker.com", "postgresql.org", "sqlite.org", "modelcontextprotocol.io")
