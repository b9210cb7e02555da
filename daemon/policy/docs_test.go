package policy

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const docs = "../../docs/policies.md"

// fence is a fenced block of the documentation.
type fence struct {
	line       int
	kind, text string
}

func fences(t *testing.T, path string) []fence {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []fence
	var open *fence
	for i, line := range strings.Split(string(b), "\n") {
		kind, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			all = append(all, fence{line: i + 1, kind: kind})
			open = &all[len(all)-1]
		case isFence:
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return all
}

// Each sample of docs/policies.md must load without diagnostics, and each call under it must have
// the documented outcome. The commands are run in cmd/tgctl.
func TestDocumentation(t *testing.T) {
	var yaml, cedar string
	var project *Project
	var floor *Set
	var tools *listed
	samples, calls := 0, 0
	for _, f := range fences(t, docs) {
		kind, name, _ := strings.Cut(f.kind, " ")
		switch {
		case f.kind == "yaml":
			yaml, cedar, project, floor, tools = f.text, "", nil, nil, &listed{}
			samples++
		case kind == "cedar":
			cedar += f.text
			samples++
		case kind == "calls":
			set := load(t, yaml, cedar, WithTools(tools))
			if floor != nil {
				set = set.WithFloor(floor)
			}
			calls += checkCalls(t, f, set.In(project, nil))
		case kind == "tools":
			for _, line := range strings.Split(strings.TrimSpace(f.text), "\n") {
				cols := columns.Split(line, -1)
				tools.list(t, cols[0], "", cols[1], cols[2], noon)
			}
		case name == config.ProjectFileName:
			file, ds := config.ParseProject("/p/"+name, []byte(f.text))
			if file == nil || len(ds) > 0 {
				t.Fatalf("%s:%d: %v", docs, f.line, ds)
			}
			project = NewProject(file)
			samples++
		case kind == "yaml" && name == "dev.yaml":
			floor = loadBundle(t, true, strings.TrimPrefix(f.text, "schema: 1\n"))
			samples++
		case kind == "yaml" && strings.HasSuffix(name, config.TestSuffix):
			if file, ds := config.ParseTests("/p/"+name, []byte(f.text)); file == nil || len(ds) > 0 {
				t.Errorf("%s:%d: %v", docs, f.line, ds)
			}
		case kind == "yaml":
			checkSample(t, f, f.text, "", &listed{})
		case kind == "", kind == "console", kind == "jsonl":
		default:
			t.Errorf("%s:%d: a block of the kind %q is run by nobody", docs, f.line, f.kind)
		}
		if f.kind == "yaml" || kind == "cedar" {
			checkSample(t, f, yaml, cedar, tools)
		}
	}
	if samples < 10 || calls < 20 {
		t.Errorf("found %d samples and %d calls: is this the right page?", samples, calls)
	}
}

// checkSample loads a configuration as shown in a page. It adds a policy that matches nothing, so
// that rules that need policies cause no warning.
func checkSample(t *testing.T, f fence, yaml, cedar string, tools *listed) {
	t.Helper()
	cedar += "permit (principal, action == ThoughtGate::Action::\"no/such\", resource);"
	cfg, ds := config.Load(folder(t, map[string]string{config.FileName: yaml, "policies/a.cedar": cedar}), func(string) string { return "" })
	if cfg != nil {
		var more []config.Diagnostic
		_, more = Load(cfg, WithTools(tools))
		ds = append(ds, more...)
	}
	if len(ds) > 0 {
		t.Errorf("%s:%d: %v", docs, f.line, ds)
	}
}

var columns = regexp.MustCompile(`\s{2,}`)

func checkCalls(t *testing.T, f fence, s gate.Policy) int {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(f.text), "\n")
	for i, line := range lines {
		cols := columns.Split(strings.TrimSpace(line), -1)
		if len(cols) != 4 {
			t.Errorf("%s:%d: %q has %d columns, want server, call, arguments, verdict", docs, f.line+1+i, line, len(cols))
			continue
		}
		what, with, _ := strings.Cut(cols[1], " with ")
		var facts []gate.Fact
		for _, name := range strings.Split(with, ",") {
			if name != "" {
				facts = append(facts, gate.Fact{Name: name, Member: "text"})
			}
		}
		c := documentedCall(t, cols[0], what, cols[2])
		if c.Server == "files" {
			c.Command = []string{"/usr/bin/mcp-server-filesystem", "/home/ann"} // the page ties it to that
		}
		if got := inWords(inShort(s.Rule(context.Background(), c, facts)), cols[3]); got != cols[3] {
			t.Errorf("%s:%d: %s: got %s, the page says %s", docs, f.line+1+i, cols[1], got, cols[3])
		}
	}
	return len(lines)
}

func documentedCall(t *testing.T, server, what, arguments string) *gate.Call {
	t.Helper()
	kind, name, _ := strings.Cut(what, " ")
	switch kind {
	case "tool":
		return toolCall(t, server, name, arguments)
	case "prompt":
		return fromAgent(t, server, "prompts/get", `{"name":`+quoted(name)+`,"arguments":`+arguments+`}`)
	case "read":
		return fromAgent(t, server, "resources/read", `{"uri":`+quoted(name)+`}`)
	case "asks":
		return fromServer(t, server, name, arguments)
	case "calls":
		return fromAgent(t, server, name, arguments)
	}
	t.Fatalf("a call of the kind %q", kind)
	return nil
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// inWords describes the outcome of a call as briefly as want does.
func inWords(got, want string) string {
	if strings.HasPrefix(got, "error: ") {
		return "refused"
	}
	word, _, _ := strings.Cut(got, ";")
	if strings.HasPrefix(want, "ask ") {
		_, workflow, _ := strings.Cut(got, "; ask ")
		return word + " " + workflow
	}
	return word
}

// The sample in the package comment of config must load, too.
func TestConfigPackageComment(t *testing.T) {
	b, err := os.ReadFile("../config/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var sample strings.Builder
	for _, line := range strings.Split(string(b), "\n") {
		if yaml, ok := strings.CutPrefix(line, "//\t"); ok {
			sample.WriteString(yaml + "\n")
		}
	}
	s := load(t, sample.String(), "")
	if got := judge(s, toolCall(t, "payments", "pay", `{}`)); !strings.HasPrefix(got, "deny; ") {
		t.Errorf("got %s", got)
	}
}
