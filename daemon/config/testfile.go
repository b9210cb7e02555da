package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// TestSuffix is the suffix of the names of test files.
const TestSuffix = ".test.yaml"

// TestFile is a file of calls and their expected verdicts.
type TestFile struct {
	Path string `yaml:"-"` // absolute

	JSONSchema string `yaml:"$schema" doc:"where an editor finds the JSON Schema of this file"`
	Schema     int    `yaml:"schema" need:"true" min:"1" max:"1" doc:"version of this format: 1"`
	Config     string `yaml:"config" doc:"the configuration to test, relative to this file"`
	Project    string `yaml:"project" doc:"folder of the calls, relative to this file; its .thoughtgate.yaml applies"`
	Tests      []Test `yaml:"tests" need:"true" doc:"calls, in their order"`
}

// Test is a call with its expected verdict, or with a result that later tests depend on.
type Test struct {
	Place Place  `yaml:"-"`
	Name  string `yaml:"name" doc:"what is tested, in a few words"`

	Server     string   `yaml:"server" need:"true" doc:"server id"`
	Tool       string   `yaml:"tool" doc:"the tool that is called"`
	Prompt     string   `yaml:"prompt" doc:"the prompt that is requested"`
	URI        string   `yaml:"uri" doc:"the resource that is read"`
	Method     string   `yaml:"method" doc:"the MCP method, if not given by tool, prompt or uri"`
	Arguments  JSON     `yaml:"arguments" doc:"arguments of the call"`
	Params     JSON     `yaml:"params" doc:"params of the call"`
	Result     JSON     `yaml:"result" doc:"result of the call, which was forwarded; later tests of the session know it"`
	Definition JSON     `yaml:"definition" doc:"the tool as the server lists it"`
	Agent      string   `yaml:"agent" doc:"type of the agent"`
	Session    string   `yaml:"session" doc:"tests with the same session share what servers sent; if left out, the test has a session of its own"`
	Command    []string `yaml:"command" one:"true" doc:"command line of the server"`
	Assume     []Fact   `yaml:"assume" one:"true" doc:"facts to assume"`

	Expect   Expected `yaml:"expect" doc:"forward | ask | deny | hide"`
	Gate     string   `yaml:"gate" doc:"the gate that decides: visible, pin, rule, permit, ask or accident"`
	Workflow string   `yaml:"workflow" doc:"the workflow that asks"`
	Policy   []string `yaml:"policy" one:"true" doc:"ids of the deciding policies"`
	Facts    []Fact   `yaml:"facts" one:"true" doc:"facts that must be found"`
	Reason   string   `yaml:"reason" doc:"a part of the reason"`
}

// Expected is an expected verdict.
type Expected string

const (
	ExpectForward Expected = "forward"
	ExpectAsk     Expected = "ask"
	ExpectDeny    Expected = "deny"
	ExpectHide    Expected = "hide" // denied as if the subject did not exist
)

func (Expected) words() []string { return []string{"forward", "ask", "deny", "hide"} }

// TestSchema returns a JSON Schema of test files.
func TestSchema() []byte { return whole.schema(reflect.TypeFor[TestFile](), "*"+TestSuffix) }

// ParseTests parses the text of the test file at path, which must be absolute and need not exist.
// The TestFile is nil if there is any error.
func ParseTests(path string, text []byte) (*TestFile, []Diagnostic) {
	f := &TestFile{Path: path}
	marks, form := Decode(path, text, f)
	if marks == nil {
		return nil, form
	}
	if f.Project != "" {
		f.Project = beside(path, f.Project)
	}
	if f.Config != "" {
		f.Config = beside(path, f.Config)
	}
	found := form
	for i := range f.Tests {
		// A test that failed to decode would yield errors about what is missing in it.
		if !within(form, f.Tests[i:]) {
			found = append(found, f.Tests[i].complete(marks)...)
		}
	}
	if place := marks[&f.Tests]; place.Line > 0 && len(f.Tests) == 0 {
		found = append(found, place.Diagnostic(Error, "", "", "the file has no tests"))
	}
	Sort(found)
	if HasErrors(found) {
		return nil, found
	}
	return f, found
}

// gates are the names of the gates in records.
var gates = []string{"visible", "pin", "rule", "permit", "ask", "accident"}

// within reports whether any of ds lies in the first of tests.
func within(ds []Diagnostic, tests []Test) bool {
	before := func(p Place, line, column int) bool { return p.Line < line || p.Line == line && p.Column <= column }
	return slices.ContainsFunc(ds, func(d Diagnostic) bool {
		return before(tests[0].Place, d.Line, d.Column) && (len(tests) == 1 || !before(tests[1].Place, d.Line, d.Column))
	})
}

func beside(path, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(filepath.Dir(path), name)
}

// complete sets what a test leaves out and reports what cannot be intended.
func (t *Test) complete(marks Marks) (found []Diagnostic) {
	wrong := func(field any, hint, format string, args ...any) {
		at := marks[field]
		if at.Line == 0 {
			at = t.Place
		}
		found = append(found, at.Diagnostic(Error, "", hint, format, args...))
	}
	var subjects []string
	for _, s := range []struct{ key, is, method string }{
		{"tool", t.Tool, "tools/call"}, {"prompt", t.Prompt, "prompts/get"}, {"uri", t.URI, "resources/read"},
	} {
		if s.is == "" {
			continue
		}
		subjects = append(subjects, s.key)
		if t.Method == "" {
			t.Method = s.method
		}
	}
	switch {
	case len(subjects) > 1:
		wrong(nil, "", "the test has %s; a call has only one of them", strings.Join(subjects, " and "))
	case len(subjects) == 1 && t.Params != nil:
		wrong(&t.Params, "write arguments", "params replace %s", subjects[0])
	case t.Arguments != nil && t.Params != nil:
		wrong(&t.Params, "", "the test has arguments and params")
	case t.Method == "":
		wrong(nil, "write tool, prompt or uri, or a method", "the test calls nothing")
	}
	switch {
	case t.Result == nil && t.Expect == "":
		wrong(nil, "add expect: ask, or another verdict", "the test has no expect")
	case t.Expect == "" && (t.Gate != "" || t.Workflow != "" || t.Policy != nil || t.Facts != nil || t.Reason != ""):
		wrong(nil, "", "the test has expectations but no verdict")
	case t.Workflow != "" && t.Expect != ExpectAsk:
		wrong(&t.Workflow, "", "a workflow needs expect: ask; the test expects %s", t.Expect)
	}
	if t.Gate != "" && !slices.Contains(gates, t.Gate) {
		wrong(&t.Gate, suggestion(t.Gate, gates), "unknown gate %q", t.Gate)
	}
	if t.Name == "" {
		t.Name = t.about()
	}
	return found
}

// about returns a name for a test that has none.
func (t *Test) about() string {
	subject := t.Tool + t.Prompt + t.URI
	if t.Tool == "" {
		subject = strings.TrimSpace(t.Method + " " + subject)
	}
	return subject + " on " + t.Server
}

// Subject returns the name or URI that the test is about; empty for other methods.
func (t *Test) Subject() string { return t.Tool + t.Prompt + t.URI }
