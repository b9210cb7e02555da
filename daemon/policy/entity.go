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

// The entity types of a call.
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

// Known is what the daemon knows about a call in addition to the call itself. Unknown fields are
// zero; Cedar sees an empty string, 0 or an empty set.
type Known struct {
	User       string   // owner of the agent's process, according to the kernel
	Executable string   // of the agent
	Cwd        string   // of the agent
	TTY        string   // of the agent
	Calls      int64    // calls judged earlier in the session
	Seconds    int64    // since the start of the session
	Servers    []string // attached in the session
	// Annotations is the JSON object of the tool's annotations, as claimed by the server.
	Annotations []byte
	// Project is the folder in which the agent works; if empty, that of the call applies.
	Project string
	// Hash, if not nil, returns the SHA-256 of Executable in hex. It is called only if a policy
	// reads the hash, and may take a moment. If it fails the call cannot be judged.
	Hash func() (string, error)
}

// The groups of actions.
var (
	actionCall  = cedar.NewEntityUID(typeAction, "call")
	actionTools = cedar.NewEntityUID(typeAction, "tools/call")
	inCall      = cedar.NewEntityUIDSet(actionCall)
	inTools     = cedar.NewEntityUIDSet(actionTools)
)

// cedarCall is a call as Cedar sees it, without its context: principal, action and resource, and
// the entities that contain them.
type cedarCall struct {
	principal, action, resource  cedar.EntityUID
	agent, session, user, server cedar.EntityUID

	subject *subject
	name    string // the one of the subject's names that is judged
	call    *gate.Call
	known   *Known
	used    members // by policies that may apply

	err error // of an attribute that could not be determined
}

// newCedarCall returns the entities of a call. It fails if the id of a tool equals the name of a
// method.
func newCedarCall(s *subject, name string, c *gate.Call, k *Known) (*cedarCall, error) {
	w := &cedarCall{
		subject: s, name: name, call: c, known: k,
		agent:   cedar.NewEntityUID(typeAgent, cedar.String(s.agent)),
		session: cedar.NewEntityUID(typeSession, cedar.String(c.Session)),
		user:    cedar.NewEntityUID(typeUser, cedar.String(k.User)),
		server:  cedar.NewEntityUID(typeServer, cedar.String(s.server)),
		action:  cedar.NewEntityUID(typeAction, cedar.String(s.method)),
	}
	if s.class == classAsk {
		w.principal, w.resource = w.server, w.agent
		return w, nil
	}
	if s.kind == typeMethod {
		w.name = s.method
	}
	id := qualified(s.server, w.name)
	w.principal, w.resource = w.agent, cedar.NewEntityUID(s.kind, cedar.String(id))
	if s.method != "tools/call" {
		return w, nil
	}
	if isMethod(id) {
		return nil, fmt.Errorf("the server id and the tool name together read as the method %q; give the server another id", id)
	}
	w.action.ID = cedar.String(id)
	return w, nil
}

// actions returns the action and its ancestors.
func (w *cedarCall) actions() []cedar.EntityUID {
	if w.subject.method == "tools/call" {
		return []cedar.EntityUID{w.action, actionTools, actionCall}
	}
	return []cedar.EntityUID{w.action, actionCall}
}

// resources returns the resource and its ancestors.
func (w *cedarCall) resources() []cedar.EntityUID {
	if w.subject.class == classAsk {
		return []cedar.EntityUID{w.agent, w.session, w.user}
	}
	return []cedar.EntityUID{w.resource, w.server}
}

// Get implements cedar.EntityGetter. Most policies read few entities or none, so entities are
// built on demand.
func (w *cedarCall) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
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

// attributeHash is the attribute of an agent that holds the hash of its program.
const attributeHash = "sha256"

// agentAttributes returns the attributes of the agent.
func (w *cedarCall) agentAttributes() cedar.Record {
	hash := ""
	if w.used&useHash != 0 && w.known.Hash != nil {
		var err error
		if hash, err = w.known.Hash(); err != nil {
			w.err = fmt.Errorf("read the agent's program: %w", err)
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

// attributes returns the attributes of the resource.
func (w *cedarCall) attributes() cedar.Record {
	name, server := cedar.String(w.name), cedar.String(w.subject.server)
	if w.subject.kind != typeResource {
		return cedar.NewRecord(cedar.RecordMap{"name": name, "server": server})
	}
	a := uri.Parse(w.name)
	return cedar.NewRecord(cedar.RecordMap{
		"uri": name, "server": server,
		"scheme": cedar.String(a.Scheme), "host": cedar.String(a.Host), "path": cedar.String(a.Path),
	})
}

// isMethod reports whether id is the name of a method, whose action is not that of a tool.
func isMethod(id string) bool {
	row := mcp.Lookup(wire.FromAgent, &wire.Envelope{Kind: wire.Request, Method: id})
	return !row.Unknown || id == "subscriptions/listen"
}

var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// qualified returns the id of a tool, prompt or resource: server/name. A slash in the
// server's id is escaped, so that ids of two servers are never equal.
func qualified(server, name string) string {
	if strings.ContainsAny(server, "%/") {
		server = slashes.Replace(server)
	}
	return server + "/" + name
}

var unslashed = strings.NewReplacer("%2F", "/", "%25", "%")

// unqualified splits an id that qualified returned.
func unqualified(id string) (server, tool string, ok bool) {
	server, tool, ok = strings.Cut(id, "/")
	if strings.Contains(server, "%") {
		server = unslashed.Replace(server)
	}
	return server, tool, ok && server != "" && tool != ""
}
