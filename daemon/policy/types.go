package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// The types of what newWorld and newContext make.
var (
	textType    = resolved.StringType{}
	longType    = resolved.LongType{}
	boolType    = resolved.BoolType{}
	decimalType = resolved.ExtensionType("decimal")
	textSetType = resolved.SetType{Element: textType}
)

func required(members ...any) resolved.RecordType {
	r := resolved.RecordType{}
	for i := 0; i < len(members); i += 2 {
		r[types.String(members[i].(string))] = resolved.Attribute{Type: members[i+1].(resolved.IsType)}
	}
	return r
}

func optional(members ...any) resolved.RecordType {
	r := required(members...)
	for name, a := range r {
		a.Optional = true
		r[name] = a
	}
	return r
}

// entityShapes are the entities of a call, with their attributes.
var entityShapes = map[types.EntityType]resolved.Entity{
	typeUser:    {Name: typeUser},
	typeSession: {Name: typeSession, ParentTypes: []types.EntityType{typeUser}},
	typeAgent: {Name: typeAgent, ParentTypes: []types.EntityType{typeSession, typeUser}, Shape: required(
		"executable", textType, "sha256", textType, "cwd", textType, "tty", textType, "project", textType, "session", textType)},
	typeServer:   {Name: typeServer, Shape: required("id", textType, "launch", textType, "command", textType)},
	typeTool:     {Name: typeTool, ParentTypes: []types.EntityType{typeServer}, Shape: required("name", textType, "server", textType)},
	typePrompt:   {Name: typePrompt, ParentTypes: []types.EntityType{typeServer}, Shape: required("name", textType, "server", textType)},
	typeMethod:   {Name: typeMethod, ParentTypes: []types.EntityType{typeServer}, Shape: required("name", textType, "server", textType)},
	typeResource: {Name: typeResource, ParentTypes: []types.EntityType{typeServer}, Shape: required("uri", textType, "server", textType, "scheme", textType, "host", textType, "path", textType)},
}

// contextShape is the context of any call, but for its arguments and lists.
var contextShape = required(
	"facts", textSetType,
	"fact_details", factDetailsShape(),
	"policy_id", textType, "profile", textType, "method", textType,
	"time", required("hour", longType, "day_of_week", longType, "timestamp", longType),
	"session", required("calls", longType, "seconds", longType, "servers", textSetType),
	"annotations", optional("title", textType, "readOnlyHint", boolType, "destructiveHint", boolType, "idempotentHint", boolType, "openWorldHint", boolType),
	"ask", required("text", textType, "tools", textSetType, "properties", textSetType, "scheme", textType, "host", textType),
)

func factDetailsShape() resolved.RecordType {
	var members []any
	for _, name := range config.Facts() {
		members = append(members, name, required("details", textSetType, "members", textSetType))
	}
	return optional(members...)
}

// guess says which type stands for a place in the arguments of which nothing is
// known, by the place's path.
type guess map[string]resolved.IsType

// guesses are the types that are tried: those that values can have, but for
// records, which are told by what is looked at in them.
var guesses = []resolved.IsType{
	textType, longType, boolType, textSetType, decimalType,
	resolved.SetType{Element: longType}, resolved.SetType{Element: decimalType}, resolved.SetType{Element: boolType},
}

// typing makes Cedar types of shapes, of as much of them as a policy looks at.
type typing struct {
	guess   guess
	unknown []string // paths that guess may decide, in the order in which they are met
	sure    bool     // of what nothing is known: it is there
}

// arguments is the type of context.arguments for a policy that looks at seen.
func (t *typing) arguments(s *shape.Shape, seen *looks) resolved.RecordType {
	if s == nil {
		s = openShape
	}
	return t.object(s, seen, "arguments")
}

// openShape is that of arguments of which nothing is known.
var openShape = &shape.Shape{Kind: shape.Object, Rest: &shape.Shape{}}

// of is the type of what has the shape s and is looked at as seen says.
func (t *typing) of(s *shape.Shape, seen *looks, path string) resolved.IsType {
	if s == nil {
		s = &shape.Shape{}
	}
	switch s.Kind {
	case shape.Text:
		return textType
	case shape.Bool:
		return boolType
	case shape.Integer:
		return longType
	case shape.Number:
		return decimalType
	case shape.List:
		return resolved.SetType{Element: t.of(s.Items, nil, path+"[]")}
	case shape.Object:
		return t.object(s, seen, path)
	}
	if seen != nil && len(seen.members) > 0 {
		return t.object(openShape, seen, path)
	}
	t.unknown = append(t.unknown, path)
	if g := t.guess[path]; g != nil {
		return g
	}
	return textType
}

// object is the type of an object. Members that the policy doesn't look at are
// left out, unless it looks at the object as a whole; so that two tools which
// differ only in these are one to the policy.
func (t *typing) object(s *shape.Shape, seen *looks, path string) resolved.RecordType {
	r := resolved.RecordType{}
	if seen == nil || seen.whole {
		for _, m := range s.Members {
			r[types.String(m.Name)] = resolved.Attribute{Type: t.of(m.Shape, seen.at(m.Name), path+"."+m.Name), Optional: !m.Required}
		}
	}
	if seen == nil {
		return r
	}
	for _, name := range seen.names() {
		m, ok := s.Member(name)
		if _, done := r[types.String(name)]; !ok || done {
			continue
		}
		r[types.String(name)] = resolved.Attribute{
			Type: t.of(m.Shape, seen.at(name), path+"."+name), Optional: !m.Required && !(t.sure && m.Shape.Kind == shape.Any),
		}
	}
	return r
}

// lists is the type of context.lists: the shape of the arguments with a textType in
// place of each list, and without all else.
func (t *typing) lists(s *shape.Shape, seen *looks) resolved.RecordType {
	if s == nil {
		s = openShape
	}
	r := resolved.RecordType{}
	for _, name := range seen.names() {
		m, ok := s.Member(name)
		if !ok {
			continue
		}
		deeper := len(seen.at(name).names()) > 0
		a := resolved.Attribute{Type: textType, Optional: !m.Required && !(t.sure && m.Shape.Kind == shape.Any)}
		switch {
		case m.Shape.Kind == shape.Object:
			a.Type = t.lists(m.Shape, seen.at(name))
			a.Optional = true // it may hold no list
		case m.Shape.Kind == shape.Any && deeper:
			a.Type = t.lists(openShape, seen.at(name))
		case m.Shape.Kind == shape.Any, m.Shape.Kind == shape.List:
		default:
			continue
		}
		r[types.String(name)] = a
	}
	return r
}

// signature writes a type down, so that equal types have equal signatures.
func signature(b *strings.Builder, t resolved.IsType) {
	switch t := t.(type) {
	case resolved.StringType:
		b.WriteByte('s')
	case resolved.LongType:
		b.WriteByte('l')
	case resolved.BoolType:
		b.WriteByte('b')
	case resolved.ExtensionType:
		b.WriteByte('d')
	case resolved.SetType:
		b.WriteByte('[')
		signature(b, t.Element)
	case resolved.RecordType:
		b.WriteByte('{')
		for _, name := range sortedKeys(t) {
			b.WriteString(cedar.String(name).String())
			if t[name].Optional {
				b.WriteByte('?')
			}
			signature(b, t[name].Type)
		}
		b.WriteByte('}')
	}
}
