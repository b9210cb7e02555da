package agentconf

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// Half of the servers in today's files are addresses. Such an entry becomes one that starts tg-shim,
// which every agent can start: what only an entry with an address has goes, and the daemon gets it
// with the session. Little of the entry stays, so its original is kept complete in the journal, and
// put back with what others have changed in it meanwhile.

// Remote describes a server behind an address, as its entry does. Address and headers are templates,
// in which references to variables are not expanded.
type Remote struct {
	Server    string            `json:"server"` // the agent's name of it
	Address   string            `json:"address"`
	Transport Transport         `json:"transport,omitempty"`
	Headers   []Header          `json:"headers,omitempty"` // in the order of the file
	Helper    []string          `json:"helper,omitempty"`  // command that prints more headers
	From      string            `json:"from,omitempty"`    // the project's file that names the server; empty if none does
	Login     bool              `json:"login,omitempty"`   // the agent itself would log in
	Syntax    string            `json:"syntax,omitempty"`  // of references: a key of remoteVariables; empty for none
	Own       map[string]string `json:"own,omitempty"`     // values of references that the agent resolves itself
}

// Header is a header that is sent with each request.
type Header struct {
	Name     string `json:"name"`
	Template string `json:"template,omitempty"`
	Variable string `json:"variable,omitempty"` // its value follows the template
	Optional bool   `json:"optional,omitempty"` // without that variable, the header is left out
}

// Transport is how the agent carries messages, if its entry has it try one way only.
type Transport string

const (
	AnyTransport Transport = ""
	HTTP         Transport = "http" // Streamable HTTP
	SSE          Transport = "sse"
)

// transports are the types that agents write.
var transports = map[string]Transport{
	"http": HTTP, "streamable-http": HTTP, "streamableHttp": HTTP, "streamable_http": HTTP, "streamableHTTP": HTTP,
	"sse": SSE, "remote": AnyTransport, "": AnyTransport,
}

// remoteKind is what has to be known of an agent's entries with an address besides the usual.
type remoteKind struct {
	local string               // type of an entry with a command, if entries have types; default: stdio
	bare  map[string]Transport // transports that the member with the address implies
	types bool                 // the agent tries the transport that an entry's type names, and no other
}

// Members of entries with an address. Those with an address come in the order in which they count.
var (
	addressMembers = []string{"httpUrl", "url", "serverUrl", "uri"}
	headerMembers  = []string{"headers", "http_headers"}
	helperMembers  = []string{"headersHelper", "http_headers_helper"}
	loginMembers   = []string{"oauth", "auth", "authProviderType", "oauthScopes", "oauthClientId"}
	typeMembers    = []string{"type", "transportType", "transport"} // as texts; Cline has an object under the last name

	onlyRemote = slices.Concat(addressMembers, headerMembers, helperMembers, loginMembers, []string{envHeaders, bearerVariable})
)

const (
	envHeaders     = "env_http_headers"
	bearerVariable = "bearer_token_env_var"
)

// remoteVariables are the syntaxes of references, by name.
var remoteVariables = map[string]variables{
	"shell": shellVariables, "dollar": dollarVariables, "brace": {pattern: braceVariables.pattern, unset: emptyUnset}, "editor": {pattern: editorPattern, unset: emptyUnset},
}

// syntaxNameOf returns the name of a syntax of references, or "" for none.
func syntaxNameOf(v variables) string {
	for name, other := range remoteVariables {
		if v.pattern != nil && v.pattern == other.pattern {
			return name
		}
	}
	return ""
}

// onlyAgent matches references that only the agent can resolve, by asking the person, by its settings,
// by its own way of reading files, or by a shell.
var onlyAgent = regexp.MustCompile(`\$\{(?:input|command|config|file):[^}]*\}|\{file:[^}]*\}|\$\{\{[^}]*\}\}|\$\([^)]*\)`)

// leaveAddress marks an entry as one with an address. kind is its type as written, if it has one.
func (e *Entry) leaveAddress(kind string) {
	e.Ungoverned, e.inert, e.address = "a remote server", false, true
	if kind != "" {
		e.Ungoverned += " (" + kind + ")"
	}
}

// leaveRemote leaves an entry with an address ungoverned, for the reason in stays.
func (e *Entry) leaveRemote() {
	e.Ungoverned, e.Remote = e.Ungoverned+", left as it is: "+e.stays, nil
}

// describeRemotes describes the entries with an address, and has those governed that can be.
func (f *Found) describeRemotes(agent Agent, env Env) {
	taken := map[string]*Remote{}
	servers := kindOf(agent.Name()).merges.servers
	for _, starts := range []bool{true, false} { // of several entries of a name, one that the agent starts counts
		for e := range each(f.Sources) {
			if !e.address || starts != (e.Off == Starts || e.Off == Pending) {
				continue
			}
			files := 0
			for _, s := range f.Sources {
				if servers != nil && s.doc.At(servers).Member(e.ID).Exists() {
					files++
				}
			}
			switch e.describe(e.node(), agent); {
			case e.stays != "":
			case e.Off == Denied:
				e.stays = "the agent's own rules deny it"
			case files > 1:
				e.stays = "several files describe it"
			case taken[e.ID] != nil && !reflect.DeepEqual(taken[e.ID], e.Remote):
				e.stays = "another one has its name"
			}
			if e.stays != "" {
				e.leaveRemote()
				continue
			}
			e.Ungoverned, taken[e.ID] = "", e.Remote
		}
	}
}

// describe sets Remote to what n, the entry as its owner wrote it, says, or stays to why it can't be
// governed.
func (e *Entry) describe(n edit.Node, agent Agent) {
	k := kindOf(agent.Name()).remote
	e.local = k.local
	r := &Remote{Server: e.ID, Syntax: syntaxNameOf(e.vars), Own: e.vars.own}
	e.Remote = r
	for _, name := range addressMembers {
		if at := n.Member(name); at.Kind() == edit.String && r.Address == "" {
			r.Address, r.Transport = at.Text(), k.bare[name]
		}
	}
	for _, name := range typeMembers {
		if kind := n.Member(name); kind.Exists() && kind.Kind() != edit.Object {
			t, known := transports[kind.Text()]
			if !known {
				e.stays = cmp.Or(e.stays, fmt.Sprintf("its transport %q is not supported", kind.Text()))
			}
			if k.types {
				r.Transport = cmp.Or(t, r.Transport)
			}
		}
	}
	why := r.readHeaders(n)
	if text, err := json.Marshal(r); err == nil && strings.Contains(string(text), `\ufffd`) || !utf8.ValidString(n.Raw()) {
		why = "its text is not valid Unicode"
	}
	if err := e.tryExchange(n); err != nil && why == "" {
		why = "its entry can't be replaced: " + err.Error()
	}
	for _, text := range r.templates() {
		if ref := onlyAgent.FindString(text); ref != "" && why == "" {
			why = "only the agent can resolve " + ref
		}
	}
	e.stays = cmp.Or(e.stays, why, r.checkAddress(), n.Fixed())
	for _, name := range loginMembers {
		if login := n.Member(name); login.Exists() && login.Kind() != edit.Null && !login.IsFalse() && !r.authorized() {
			r.Login = true
		}
	}
}

// readHeaders reads the headers of an entry. It returns why they can't be sent, or "".
func (r *Remote) readHeaders(n edit.Node) string {
	for _, name := range headerMembers {
		for key, value := range n.Member(name).Members() {
			if value.Kind() != edit.String {
				return "its header " + key.Text() + " is no text"
			}
			r.Headers = append(r.Headers, Header{Name: key.Text(), Template: value.Text()})
		}
	}
	for key, value := range n.Member(envHeaders).Members() {
		if value.Kind() != edit.String {
			return "its header " + key.Text() + " names no variable"
		}
		r.Headers = append(r.Headers, Header{Name: key.Text(), Variable: value.Text(), Optional: true})
	}
	if name := n.Member(bearerVariable); name.Exists() {
		r.Headers = append(r.Headers, Header{Name: "Authorization", Template: "Bearer ", Variable: name.Text()})
	}
	for _, name := range helperMembers {
		helper := n.Member(name)
		switch words := texts(helper); {
		case helper.Kind() == edit.String:
			r.Helper = []string{"sh", "-c", helper.Text()}
		case helper.Exists() && (len(words) == 0 || len(words) != len(helper.Items())):
			return "its " + name + " is no command"
		case helper.Exists():
			r.Helper = words
		}
	}
	for _, h := range r.Headers {
		if !httpguts.ValidHeaderFieldName(h.Name) {
			return fmt.Sprintf("%q is not the name of a header", h.Name)
		}
	}
	return ""
}

// authorized reports whether the entry itself says how requests are authorized.
func (r *Remote) authorized() bool {
	return len(r.Helper) > 0 || slices.ContainsFunc(r.Headers, func(h Header) bool { return strings.EqualFold(h.Name, "authorization") })
}

// LogsIn reports whether the agent itself would log in to the server, if that wants it: nothing in the entry
// authorizes requests. A server of this machine counts only if the entry speaks of a login.
func (r *Remote) LogsIn() bool {
	s, err := uri.ParseServer(r.Address)
	here := err == nil && (s.Socket != "" || uri.IsHere(s.URL.Hostname()))
	return r.Login || !r.authorized() && !here
}

// checkAddress returns why the address can't be one, as far as that is known before it is expanded.
func (r *Remote) checkAddress() string {
	if len(remoteVariables[r.Syntax].references(r.Address)) > 0 {
		return "" // see Expand
	}
	if _, err := uri.ParseServer(r.Address); err != nil {
		return err.Error()
	}
	return ""
}

// templates returns the texts in which references are expanded.
func (r *Remote) templates() []string {
	all := []string{r.Address}
	for _, h := range r.Headers {
		if h.Variable == "" {
			all = append(all, h.Template)
		}
	}
	return all
}

// Variables returns the names of all variables that the address and the headers use, sorted.
func (r *Remote) Variables() []string {
	names := map[string]bool{}
	for _, text := range r.templates() {
		for _, ref := range remoteVariables[r.Syntax].references(text) {
			names[ref.name] = true
		}
	}
	for _, h := range r.Headers {
		if h.Variable != "" {
			names[h.Variable] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Host returns the host of the address as written, perhaps with references, and without a user. It
// is for display.
func (r *Remote) Host() string {
	scheme, rest, _ := strings.Cut(r.Address, "://")
	if scheme == "unix" {
		path, _, _ := strings.Cut(r.Address, "?")
		return path
	}
	// A reference may contain any character, so it counts as one.
	part := onlyAgent.String() + `|[^/?#\\]`
	if p := remoteVariables[r.Syntax].pattern; p != nil {
		part = p.String() + "|" + part
	}
	host, end := "", 0
	for _, at := range regexp.MustCompile(part).FindAllStringIndex(rest, -1) {
		if at[0] != end {
			break
		}
		end = at[1]
		if host += rest[at[0]:end]; rest[at[0]:end] == "@" { // what was before it is a user, perhaps with a password
			host = ""
		}
	}
	return host
}

// RemoteOf returns the description of a server, if it is among all.
func RemoteOf(all []Remote, server string) (Remote, bool) {
	if i := slices.IndexFunc(all, func(r Remote) bool { return r.Server == server }); i >= 0 {
		return all[i], true
	}
	return Remote{}, false
}

// Terms returns the hex SHA-256 of everything that decides where requests go, and with which headers.
func (r *Remote) Terms() string {
	same := *r
	same.Server, same.From = "", ""
	text, err := json.Marshal(&same)
	if err != nil {
		panic(err) // it has only texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Remotes returns the servers behind an address that are governed, one for each name. While Adopt
// commits, these are those that will be.
func (p *Plan) Remotes() []Remote {
	entries := slices.Concat(p.adopting, slices.Collect(each(p.found)))
	for _, f := range p.files {
		entries = append(entries, f.entries...)
	}
	var all []Remote
	for _, e := range entries {
		if e.Remote == nil || e.Ungoverned != "" || e.Protected || slices.ContainsFunc(all, func(have Remote) bool { return have.Server == e.ID }) {
			continue
		}
		r := *e.Remote
		r.From = e.From
		all = append(all, r)
	}
	return all
}
