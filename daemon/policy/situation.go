package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/shape"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// situation is one kind of call that a policy may meet. A policy is checked in
// each situation that its scope lets in, and in no other.
type situation struct {
	action    cedar.EntityUID
	principal cedar.EntityType
	resource  cedar.EntityType
	takes     *shape.Shape // what the arguments are; nil: anything
	sure      bool         // where takes is nil: arguments may be looked at without asking whether they are there

	// What follows is for situations of tools. A server alone stands for any of
	// its tools, and neither for any tool at all.
	isTool       bool
	server, tool string
}

// about names the situation to a person.
func (s *situation) about() string {
	switch {
	case s.tool != "":
		return qualified(s.server, s.tool)
	case s.isTool:
		return "a tool"
	}
	return string(s.action.ID)
}

// parents are the actions that the action is in.
func (s *situation) parents() cedar.EntityUIDSet {
	if s.isTool {
		return inTools
	}
	return inCall
}

// methodSituations are those of every method that is known but for tools/call.
var methodSituations = allMethods()

func allMethods() []situation {
	var all []situation
	for _, method := range mcp.Methods(wire.FromAgent) {
		for _, on := range resourcesOf(method) {
			all = append(all, situation{
				action: actionOf(method), principal: typeAgent, resource: on, takes: methodParams[method],
				// What is said to a task has none of the arguments that its tool was
				// called with. A policy over the tool that looks at them refuses it then.
				sure: on == typeTool,
			})
		}
	}
	for _, method := range mcp.Methods(wire.FromServer) {
		s := situation{action: actionOf(method), principal: typeAgent, resource: typeMethod}
		if mcp.IsAsk(method) {
			s.principal, s.resource, s.takes = typeServer, typeAgent, methodParams[method]
		}
		if !slices.ContainsFunc(all, s.same) {
			all = append(all, s)
		}
	}
	return all
}

// same reports whether two situations of methods are one.
func (s situation) same(t situation) bool {
	return s.action == t.action && s.principal == t.principal && s.resource == t.resource
}

func actionOf(id string) cedar.EntityUID { return cedar.NewEntityUID(typeAction, cedar.String(id)) }

// resourcesOf lists what a call of a method can be about, as subject.act reads it.
func resourcesOf(method string) []cedar.EntityType {
	switch mcp.SubjectKind(method) {
	case mcp.Tool:
		return nil
	case mcp.Resource:
		return []cedar.EntityType{typeResource}
	case mcp.Prompt:
		return []cedar.EntityType{typePrompt}
	case mcp.Reference:
		return []cedar.EntityType{typePrompt, typeResource}
	case mcp.Task:
		return []cedar.EntityType{typeTool, typeMethod} // not every task is known
	}
	return []cedar.EntityType{typeMethod}
}

// methodParams are the params that methods are known to have, see paramsOf.
var methodParams = map[string]*shape.Shape{
	"prompts/get":            paramsOf("prompts/get"),
	"sampling/createMessage": paramsOf("sampling/createMessage"),
	"elicitation/create":     paramsOf("elicitation/create"),
}

// paramsOf is what MCP says of the arguments of a method, nil for nothing. Of
// what a server asks it is the params.
func paramsOf(method string) *shape.Shape {
	text, list := &shape.Shape{Kind: shape.Text}, &shape.Shape{Kind: shape.List}
	object := &shape.Shape{Kind: shape.Object, Rest: &shape.Shape{}}
	switch method {
	case "prompts/get":
		return &shape.Shape{Kind: shape.Object, Rest: text}
	case "sampling/createMessage":
		return &shape.Shape{Kind: shape.Object, Rest: &shape.Shape{}, Members: []shape.Member{
			{Name: "includeContext", Shape: text},
			{Name: "maxTokens", Required: true, Shape: &shape.Shape{Kind: shape.Integer}},
			{Name: "messages", Required: true, Shape: list},
			{Name: "metadata", Shape: object},
			{Name: "modelPreferences", Shape: object},
			{Name: "stopSequences", Shape: &shape.Shape{Kind: shape.List, Items: text}},
			{Name: "systemPrompt", Shape: text},
			{Name: "temperature", Shape: &shape.Shape{Kind: shape.Number}},
			{Name: "toolChoice", Shape: object},
			{Name: "tools", Shape: list},
		}}
	case "elicitation/create":
		return &shape.Shape{Kind: shape.Object, Rest: &shape.Shape{}, Members: []shape.Member{
			{Name: "elicitationId", Shape: text},
			{Name: "message", Required: true, Shape: text},
			{Name: "mode", Shape: text},
			{Name: "requestedSchema", Shape: object},
			{Name: "url", Shape: text},
		}}
	}
	return nil
}

// scope is what a policy says in its head.
type scope struct {
	principal ast.IsPrincipalScopeNode
	action    ast.IsActionScopeNode
	resource  ast.IsResourceScopeNode
}

// lets reports whether a call of the situation can be in the scope.
func (sc *scope) lets(s *situation) bool {
	return sc.letsAction(s) && sc.letsPrincipal(s.principal) && sc.letsResource(s)
}

func (sc *scope) letsAction(s *situation) bool {
	in := func(uid cedar.EntityUID) bool {
		return uid == s.action || uid == actionCall || s.isTool && uid == actionTools
	}
	switch a := sc.action.(type) {
	case ast.ScopeTypeEq:
		return a.Entity == s.action
	case ast.ScopeTypeIn:
		return in(a.Entity)
	case ast.ScopeTypeInSet:
		return slices.ContainsFunc(a.Entities, in)
	}
	return true
}

// typesAbove are the types that an entity of a type can be in, its own included.
func typesAbove(t cedar.EntityType) []cedar.EntityType {
	switch t {
	case typeAgent:
		return []cedar.EntityType{typeAgent, typeSession, typeUser}
	case typeTool, typeResource, typePrompt, typeMethod:
		return []cedar.EntityType{t, typeServer}
	}
	return []cedar.EntityType{t}
}

func (sc *scope) letsPrincipal(t cedar.EntityType) bool { return letsType(sc.principal, t) }

func letsType(node ast.IsScopeNode, t cedar.EntityType) bool {
	switch p := node.(type) {
	case ast.ScopeTypeEq:
		return p.Entity.Type == t
	case ast.ScopeTypeIn:
		return slices.Contains(typesAbove(t), p.Entity.Type)
	case ast.ScopeTypeIs:
		return p.Type == t
	case ast.ScopeTypeIsIn:
		return p.Type == t && slices.Contains(typesAbove(t), p.Entity.Type)
	}
	return true
}

// tiedTo returns the entity that the resource must be, or lie in; the zero one
// when the scope names none.
func (sc *scope) tiedTo() cedar.EntityUID { return named(sc.resource)[0] }

// letsResource goes by type, and for tools by name too.
func (sc *scope) letsResource(s *situation) bool {
	if !letsType(sc.resource, s.resource) {
		return false
	}
	if !s.isTool || s.server == "" {
		return true
	}
	entity := sc.tiedTo()
	if entity == (cedar.EntityUID{}) {
		return true
	}
	if entity.Type == typeServer {
		return string(entity.ID) == s.server
	}
	return s.tool == "" || string(entity.ID) == qualified(s.server, s.tool)
}

// toolsNamed lists the tools that the scope can only be about, as server/tool;
// open is true when it can be about others.
func (sc *scope) toolsNamed() (ids []string, open bool) {
	if entity := sc.tiedTo(); entity.Type == typeTool {
		return []string{string(entity.ID)}, false
	}
	for _, uid := range named(sc.action) {
		switch {
		case uid == (cedar.EntityUID{}), uid == actionCall, uid == actionTools:
			open = true
		case !isMethod(string(uid.ID)):
			ids = append(ids, string(uid.ID))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), open
}

// serverNamed is the server that the scope can only be about, if it is one.
func (sc *scope) serverNamed() string {
	if entity := sc.tiedTo(); entity.Type == typeServer {
		return string(entity.ID)
	}
	return ""
}

// toolSituation is that of one tool.
func toolSituation(server, tool string, takes *shape.Shape) situation {
	return situation{
		action: actionOf(qualified(server, tool)), principal: typeAgent, resource: typeTool,
		takes: takes, isTool: true, server: server, tool: tool,
	}
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
