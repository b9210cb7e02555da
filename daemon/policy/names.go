package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/thoughtgate/thoughtgated/daemon/config"
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

// checkNames refuses entity types that no call has. A forbid over
// Action::"tools/call", the namespace forgotten, would never match, and nobody
// would notice.
func (l *loader) checkNames(p *policy) {
	tree := (*ast.Policy)(p.cedar.AST())
	l.checkScope(p, "principal", typesInScope(tree.Principal), []cedar.EntityType{typeAgent, typeSession, typeUser, typeServer})
	l.checkScope(p, "action", typesInScope(tree.Action), []cedar.EntityType{typeAction})
	l.checkScope(p, "resource", typesInScope(tree.Resource), entityTypes)
	for _, cond := range tree.Conditions {
		ast.Inspect(ast.NewNode(cond.Body), func(n ast.IsNode) bool {
			l.checkScope(p, "", typesInNode(n), entityTypes)
			return true
		})
	}
}

// checkScope reports the types in found that are not known in a part of a
// policy: principal, action or resource, or nothing for its conditions.
func (l *loader) checkScope(p *policy, part string, found, known []cedar.EntityType) {
	for _, name := range found {
		if slices.Contains(known, name) {
			continue
		}
		words := make([]string, len(known))
		for i, k := range known {
			words[i] = strings.TrimPrefix(string(k), namespace)
		}
		hint := ""
		if near := config.Nearest(strings.TrimPrefix(string(name), namespace), words); near != "" {
			hint = fmt.Sprintf("did you mean %s%s?", namespace, near)
		}
		if part == "" {
			l.report(p.place, config.Error, "", hint, "no call has an entity of type %s", name)
		} else {
			l.report(p.place, config.Error, "", hint, "no call has an entity of type %s as its %s", name, part)
		}
	}
}

func typesInScope(scope ast.IsScopeNode) []cedar.EntityType {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return []cedar.EntityType{s.Entity.Type}
	case ast.ScopeTypeIn:
		return []cedar.EntityType{s.Entity.Type}
	case ast.ScopeTypeIs:
		return []cedar.EntityType{s.Type}
	case ast.ScopeTypeIsIn:
		return []cedar.EntityType{s.Type, s.Entity.Type}
	case ast.ScopeTypeInSet:
		var found []cedar.EntityType
		for _, e := range s.Entities {
			found = append(found, e.Type)
		}
		return found
	}
	return nil
}

func typesInNode(n ast.IsNode) []cedar.EntityType {
	switch n := n.(type) {
	case ast.NodeTypeIs:
		return []cedar.EntityType{n.EntityType}
	case ast.NodeTypeIsIn:
		return []cedar.EntityType{n.EntityType}
	case ast.NodeValue:
		if uid, ok := n.Value.(types.EntityUID); ok {
			return []cedar.EntityType{uid.Type}
		}
	}
	return nil
}
