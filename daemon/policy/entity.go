package policy

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The entity types that a call is made of.
const (
	namespace = "ThoughtGate::"

	typeAgent    cedar.EntityType = namespace + "Agent"
	typeSession  cedar.EntityType = namespace + "Session"
	typeUser     cedar.EntityType = namespace + "User"
	typeAction   cedar.EntityType = namespace + "Action"
	typeServer   cedar.EntityType = namespace + "Server"
	typeTool     cedar.EntityType = namespace + "Tool"
	typeResource cedar.EntityType = namespace + "Resource"
	typePrompt   cedar.EntityType = namespace + "Prompt"
	typeMethod   cedar.EntityType = namespace + "Method"
)

var entityTypes = []cedar.EntityType{
	typeAgent, typeSession, typeUser, typeAction, typeServer, typeTool, typeResource, typePrompt, typeMethod,
}

// Known is what the daemon knows of a call beside the call itself. What is not
// known is left zero, and reaches Cedar so: as an empty text, 0, an empty set.
type Known struct {
	User       string   // of the agent's process, as the kernel sees it
	Executable string   // of the agent
	SHA256     string   // hex, of that executable; Hash counts where it is set
	Cwd        string   // of the agent
	TTY        string   // of the agent
	Calls      int64    // judged in the session before this one
	Seconds    int64    // since the session began
	Servers    []string // that the session has attached
	// Annotations is the JSON object that the server gave for the tool: claims.
	Annotations []byte
	// Project is the folder that the agent works on; empty: that of the call.
	Project string
	// Hash returns what SHA256 holds otherwise. It is called when a policy looks
	// at the agent, and may wait a moment. An error refuses the call.
	Hash func() (string, error)
}

// hash is the hash of the agent's executable.
func (k *Known) hash() (string, error) {
	if k.Hash == nil {
		return k.SHA256, nil
	}
	return k.Hash()
}

// The actions that others are in.
var (
	actionCall  = cedar.NewEntityUID(typeAction, "call")
	actionTools = cedar.NewEntityUID(typeAction, "tools/call")
	inCall      = cedar.NewEntityUIDSet(actionCall)
	inTools     = cedar.NewEntityUIDSet(actionTools)
)

// world is a call as Cedar sees it, without its context: who, what, to what,
// and the entities these are in.
type world struct {
	principal, action, resource  cedar.EntityUID
	agent, session, user, server cedar.EntityUID

	subject *subject
	name    string // the one of the subject's names that is judged
	call    *gate.Call
	known   *Known
	used    members // by the policies at hand

	err error // something that a policy looks at could not be had
}

// newWorld names the entities of a call. It fails when a name could be taken
// for another.
func newWorld(s *subject, name string, c *gate.Call, k *Known) (*world, error) {
	w := &world{
		subject: s, name: name, call: c, known: k,
		agent:   cedar.NewEntityUID(typeAgent, cedar.String(s.agent)),
		session: cedar.NewEntityUID(typeSession, cedar.String(c.Session)),
		user:    cedar.NewEntityUID(typeUser, cedar.String(k.User)),
		server:  cedar.NewEntityUID(typeServer, cedar.String(s.server)),
		action:  cedar.NewEntityUID(typeAction, cedar.String(s.method)),
	}
	if s.class == asks {
		w.principal, w.resource = w.server, w.agent
		return w, nil
	}
	if s.on == typeMethod {
		w.name = s.method
	}
	id := qualified(s.server, w.name)
	w.principal, w.resource = w.agent, cedar.NewEntityUID(s.on, cedar.String(id))
	if s.method != "tools/call" {
		return w, nil
	}
	if isMethod(id) {
		return nil, fmt.Errorf("the server id and the name of the tool together read as the method %q; give the server another id", id)
	}
	w.action.ID = cedar.String(id)
	return w, nil
}

// actions are the action and all it is in.
func (w *world) actions() []cedar.EntityUID {
	if w.subject.method == "tools/call" {
		return []cedar.EntityUID{w.action, actionTools, actionCall}
	}
	return []cedar.EntityUID{w.action, actionCall}
}

// resources are the resource and all it is in.
func (w *world) resources() []cedar.EntityUID {
	if w.subject.class == asks {
		return []cedar.EntityUID{w.agent, w.session, w.user}
	}
	return []cedar.EntityUID{w.resource, w.server}
}

// Get implements cedar.EntityGetter. Most policies look at few entities or at
// none, so each is made when it is looked at.
func (w *world) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	e := cedar.Entity{UID: uid}
	switch uid {
	case w.agent:
		e.Parents = cedar.NewEntityUIDSet(w.session, w.user)
		e.Attributes = w.agentAttributes()
	case w.session:
		e.Parents = cedar.NewEntityUIDSet(w.user)
	case w.user, actionCall:
	case w.server:
		e.Attributes = cedar.NewRecord(cedar.RecordMap{
			"id": cedar.String(w.subject.server), "launch": cedar.String(w.call.Launch),
			"command": cedar.String(strings.Join(w.call.Command, " ")),
		})
	case actionTools:
		e.Parents = inCall
	case w.action:
		e.Parents = inCall
		if w.subject.method == "tools/call" {
			e.Parents = inTools
		}
	case w.resource:
		e.Parents = cedar.NewEntityUIDSet(w.server)
		e.Attributes = w.attributes()
	default:
		return cedar.Entity{}, false
	}
	return e, true
}

// attributeHash is an attribute of agents.
const attributeHash = "sha256"

// agentAttributes are those of the agent.
func (w *world) agentAttributes() cedar.Record {
	hash := ""
	if w.used&useHash != 0 {
		var err error
		if hash, err = w.known.hash(); err != nil {
			w.err = fmt.Errorf("look at the agent's program: %w", err)
		}
	}
	project := w.known.Project
	if project == "" {
		project = w.call.Project
	}
	return cedar.NewRecord(cedar.RecordMap{
		"executable": cedar.String(w.known.Executable), attributeHash: cedar.String(hash),
		"cwd": cedar.String(w.known.Cwd), "tty": cedar.String(w.known.TTY),
		"project": cedar.String(project), "session": cedar.String(w.call.Session),
	})
}

// attributes are those of what is acted on.
func (w *world) attributes() cedar.Record {
	name, server := cedar.String(w.name), cedar.String(w.subject.server)
	if w.subject.on != typeResource {
		return cedar.NewRecord(cedar.RecordMap{"name": name, "server": server})
	}
	a := uri.Parse(w.name)
	return cedar.NewRecord(cedar.RecordMap{
		"uri": name, "server": server,
		"scheme": cedar.String(a.Scheme), "host": cedar.String(a.Host), "path": cedar.String(a.Path),
	})
}

// isMethod reports whether id is the name of a method, and so of an action of
// its own.
func isMethod(id string) bool {
	row := mcp.Lookup(wire.FromAgent, &wire.Envelope{Kind: wire.Request, Method: id})
	return !row.Unknown || id == "subscriptions/listen"
}

var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// qualified is the id of something of a server: server/name. A slash in the
// server's id is escaped, so that no two servers share a name.
func qualified(server, name string) string {
	if strings.ContainsAny(server, "%/") {
		server = slashes.Replace(server)
	}
	return server + "/" + name
}

var unslashed = strings.NewReplacer("%2F", "/", "%25", "%")

// unqualified takes a server/tool apart, as qualified put it together.
func unqualified(id string) (server, tool string, ok bool) {
	server, tool, ok = strings.Cut(id, "/")
	if strings.Contains(server, "%") {
		server = unslashed.Replace(server)
	}
	return server, tool, ok && server != "" && tool != ""
}
