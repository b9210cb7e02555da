package rehearse

import (
	"context"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Result is the result of one test.
type Result struct {
	Test        *config.Test
	Answer      *Answer
	Differences []Difference // empty if everything is as expected
}

// Difference is one thing that is not as expected.
type Difference struct{ What, Want, Got string }

// Test runs the tests of a file in order. Each test without a session is judged on its own stage. A
// test that only describes what passed has a result only if it is invalid.
func (s *Stage) Test(ctx context.Context, f *config.TestFile) []Result {
	var all []Result
	for i := range f.Tests {
		t := &f.Tests[i]
		on := s
		if t.Session == "" {
			on = New(s.fresh)
		}
		answer, err := on.Judge(ctx, lineOf(f, t), t.Expect != "")
		if on != s {
			on.Close()
		}
		switch {
		case err != nil:
			all = append(all, Result{t, &Answer{}, []Difference{{"verdict", want(t), err.Error()}}})
		case t.Expect != "":
			all = append(all, Result{t, answer, differences(t, answer)})
		}
	}
	return all
}

func want(t *config.Test) string {
	if t.Expect == "" {
		return "a result that can be forwarded"
	}
	return string(t.Expect)
}

func lineOf(f *config.TestFile, t *config.Test) Line {
	l := Line{
		Server: t.Server, Method: t.Method, Subject: t.Subject(), Arguments: t.Arguments, Params: t.Params,
		Result: t.Result, Definition: t.Definition, Agent: t.Agent, Session: t.Session, Project: f.Project,
		Command: t.Command,
	}
	for _, fact := range t.Assume {
		l.Assume = append(l.Assume, string(fact))
	}
	return l
}

func differences(t *config.Test, a *Answer) []Difference {
	var all []Difference
	compare := func(what, want, got string, same bool) {
		if !same {
			all = append(all, Difference{what, want, got})
		}
	}
	got := a.Verdict
	if a.Hidden {
		got = string(config.ExpectHide)
	}
	expected := got == string(t.Expect)
	compare("verdict", string(t.Expect), got, expected || a.Hidden && t.Expect == config.ExpectDeny)
	compare("gate", t.Gate, a.Gate, t.Gate == "" || t.Gate == a.Gate)
	compare("workflow", t.Workflow, a.Workflow, t.Workflow == "" || t.Workflow == a.Workflow || !expected)
	compare("policy", strings.Join(t.Policy, ", "), strings.Join(a.Policies, ", "), within(t.Policy, a.Policies))
	facts := make([]string, len(t.Facts))
	for i, f := range t.Facts {
		facts[i] = string(f)
	}
	names := a.FactNames()
	compare("facts", strings.Join(facts, ", "), strings.Join(names, ", "), within(facts, names))
	compare("reason", t.Reason, a.Reason, strings.Contains(a.Reason, t.Reason))
	return all
}

// within reports whether all of some are in all.
func within(some, all []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// FactNames returns the names of the facts, without duplicates.
func (a *Answer) FactNames() []string {
	var names []string
	for _, f := range a.Facts {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}
