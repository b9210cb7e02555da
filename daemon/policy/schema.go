package policy

import (
	"path/filepath"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// The types of the values that newCedarCall and newContext create.
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

// entityShapes maps the entity types of a call to their attributes.
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

// contextShape is the type of the context of any call, without arguments, lists, inputResponses
// and params.
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

// methodParams maps methods to the shapes of their arguments, as MCP defines them. For requests
// of a server it has the shapes of the params.
var methodParams = map[string]*shape.Shape{
	"prompts/get": {Kind: shape.Object, Rest: textShape},
	"sampling/createMessage": {Kind: shape.Object, Rest: &shape.Shape{}, Members: []shape.Member{
		{Name: "includeContext", Shape: textShape},
		{Name: "maxTokens", Required: true, Shape: &shape.Shape{Kind: shape.Integer}},
		{Name: "messages", Required: true, Shape: listShape},
		{Name: "metadata", Shape: openShape},
		{Name: "modelPreferences", Shape: openShape},
		{Name: "stopSequences", Shape: &shape.Shape{Kind: shape.List, Items: textShape}},
		{Name: "systemPrompt", Shape: textShape},
		{Name: "temperature", Shape: &shape.Shape{Kind: shape.Number}},
		{Name: "toolChoice", Shape: openShape},
		{Name: "tools", Shape: listShape},
	}},
	"elicitation/create": {Kind: shape.Object, Rest: &shape.Shape{}, Members: []shape.Member{
		{Name: "elicitationId", Shape: textShape},
		{Name: "message", Required: true, Shape: textShape},
		{Name: "mode", Shape: textShape},
		{Name: "requestedSchema", Shape: openShape},
		{Name: "url", Shape: textShape},
	}},
}

var (
	textShape = &shape.Shape{Kind: shape.Text}
	listShape = &shape.Shape{Kind: shape.List}
	// openShape is the shape of an object about which nothing is known.
	openShape = &shape.Shape{Kind: shape.Object, Rest: &shape.Shape{}}
)

// unknownTypes are the types that a value of unknown type can have. Records are missing: the
// members that are read identify them.
var unknownTypes = []resolved.IsType{
	textType, longType, boolType, decimalType, textSetType,
	resolved.SetType{Element: longType}, resolved.SetType{Element: decimalType}, resolved.SetType{Element: boolType},
}

// typer derives Cedar types from the part of a shape that a policy reads.
type typer struct {
	unknown []string        // paths of values of unknown type
	as      resolved.IsType // their type
	present bool            // take members of unknown type to be present
	all     bool            // take all members to be present
	known   bool            // the call type is that of a listed tool
}

// context returns the type of the context in calls of type c, as far as a policy reads it, and
// the paths in it whose type is unknown. These get the type as. If present is set, every member
// is taken to be present.
func (c *callType) context(reads *reading, as resolved.IsType, present bool) (resolved.RecordType, []string) {
	takes := c.takes
	if takes == nil {
		takes = openShape
	}
	t := &typer{as: as, all: present, known: c.listed()}
	r := resolved.RecordType{nameless: resolved.Attribute{Type: boolType}}
	for name, a := range contextShape {
		if reads.context.whole || reads.context.at(string(name)) != nil {
			r[name] = a
		}
	}
	for _, m := range []struct {
		name    string
		present bool
		of      func(*shape.Shape, *access, string) resolved.RecordType
		shape   *shape.Shape
	}{
		{"arguments", c.present, t.object, takes}, {"lists", c.present, t.lists, takes},
		{"inputResponses", false, t.object, openShape}, {"params", false, t.object, openShape},
	} {
		read := reads.context.at(m.name)
		if reads.context.whole || read != nil {
			t.present = m.present
			r[types.String(m.name)] = resolved.Attribute{Type: m.of(m.shape, read, m.name)}
		}
	}
	return r, t.unknown
}

// value returns the type of a value of shape s.
func (t *typer) value(s *shape.Shape, read *access, path string) resolved.IsType {
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
		return resolved.SetType{Element: t.value(s.Items, nil, path+"[]")}
	case shape.Object:
		return t.object(s, read, path)
	}
	if len(read.names()) > 0 {
		if read.whole && !t.known { // it is read both as an object and as something else
			t.unknown = append(t.unknown, path)
		}
		return t.object(openShape, read, path)
	}
	t.unknown = append(t.unknown, path)
	return t.as
}

// object returns the type of an object. It omits members that are not read, unless the object is
// read as a whole.
func (t *typer) object(s *shape.Shape, read *access, path string) resolved.RecordType {
	r := resolved.RecordType{}
	names := read.names()
	if read == nil || read.whole {
		names = append(s.Names(), names...)
	}
	for _, name := range names {
		if m, ok := s.Member(name); ok && r[types.String(name)].Type == nil {
			r[types.String(name)] = resolved.Attribute{Type: t.value(m.Shape, read.at(name), path+"."+name), Optional: t.optional(m)}
		}
	}
	return r
}

func (t *typer) optional(m shape.Member) bool {
	return !t.all && !m.Required && !(t.present && m.Shape.Kind == shape.Any)
}

// lists returns the type of context.lists. It has the arguments that may be lists, each as a
// text.
func (t *typer) lists(s *shape.Shape, read *access, path string) resolved.RecordType {
	r := resolved.RecordType{}
	for _, name := range read.names() {
		m, ok := s.Member(name)
		if !ok {
			continue
		}
		a := resolved.Attribute{Type: textType, Optional: t.optional(m)}
		switch deeper := read.at(name); {
		case m.Shape.Kind == shape.Object:
			a = resolved.Attribute{Type: t.lists(m.Shape, deeper, path), Optional: !t.all} // it may contain no list
		case m.Shape.Kind == shape.Any && len(deeper.names()) > 0:
			a.Type = t.lists(openShape, deeper, path)
		case m.Shape.Kind != shape.Any && m.Shape.Kind != shape.List:
			continue
		}
		r[types.String(name)] = a
	}
	return r
}

// checkSchema validates the policies in strict mode against the Cedar schema file that the
// configuration names. The file is in Cedar's schema language, or in JSON if its name ends in
// .json.
func (l *loader) checkSchema() {
	path := l.cfg.Cedar.Schema
	if path == config.SchemaGenerated {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.cfg.Path), path)
	}
	here := l.cfg.Place(&l.cfg.Cedar.Schema)
	text, err := config.ReadFile(path, maxAnyFile)
	if err != nil {
		l.report(here, config.Error, "V-013", "write generated, or the path of a Cedar schema", "the schema %s can't be read: %v", path, err)
		return
	}
	l.files = append(l.files, File{Path: path, Digest: digestOf(text), Text: l.keep(text)})
	if at := tooDeep(text); at >= 0 {
		l.report(placeAt(path, text, at), config.Error, "", "", "nested deeper than %d levels", maxNesting)
		return
	}
	var s schema.Schema
	s.SetFilename(path)
	if strings.HasSuffix(path, ".json") {
		err = s.UnmarshalJSON(text)
	} else {
		err = s.UnmarshalCedar(text)
	}
	var whole *resolved.Schema
	if err == nil {
		whole, err = s.Resolve()
	}
	if err != nil {
		l.report(config.Place{File: path}, config.Error, "", "", "not a valid Cedar schema: %v", err)
		return
	}
	v := validate.New(whole, validate.WithStrict())
	for _, p := range l.policies {
		if err := v.Policy(p.id, (*ast.Policy)(p.cedar.AST())); err != nil {
			l.report(p.place, config.Error, "", "", "the policy does not fit the schema %s: %s", filepath.Base(path), strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
}
