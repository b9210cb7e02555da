package agentconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// TestExpected compares the servers found in a collection of configurations with their expected
// values. It is skipped unless AGENT_CONFIGS names the folder of the collection:
//
//	AGENT_CONFIGS=dir go test ./internal/agentconf -run TestExpected
//
// The folder has expect.json, an object with a member for each agent, and a folder for each
// agent: its home/ has the files in the home of a user ada, its project/ those in her working
// directory. Both are copied. In texts and expected values, /home/ada is replaced by the path
// of the home, and /home/ada/src/shop by that of the project. The members of an agent:
//
//	files        existing files, each with its path; platform if it exists on one
//	             system only (as runtime.GOOS)
//	stdio        servers that are started by a command: file, pointer, name, scope,
//	             command, args, env; enabled; and effective, whether the server
//	             really starts at present
//	leave_alone  servers without a command: file, pointer, name, scope; they must not be
//	             changed, unless they have an address
//	partial      entries that are part of a server but not a server themselves:
//	             file, pointer, name
//
// If a server is merged from several scopes, effective_command and effective_args are the
// merged values, and either is accepted.
//
// Unknown agents are skipped. A server that does not start need not be found: it may belong to
// another project.
func TestExpected(t *testing.T) {
	dir := os.Getenv("AGENT_CONFIGS")
	if dir == "" {
		t.Skip("AGENT_CONFIGS names no collection of configurations")
	}
	text, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, expected := range all {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(Names(), name) {
				t.Skip("not an agent that can be wrapped")
			}
			c := newCollection(t, filepath.Join(dir, name), name, expected)
			c.checkFound()
			c.checkWrapped()
		})
	}
}

type expectedAgent struct {
	Files []struct{ Path, Platform, When string }
	Stdio []expectedServer
	Alone []expectedServer `json:"leave_alone"`

	Partial []expectedServer
}

type expectedServer struct {
	File, Pointer, Name, Scope string
	Command                    string
	Args                       []string
	Enabled, Effective         bool
	Why                        string
	EffectiveCommand           []string `json:"effective_command"`
	EffectiveArgs              []string `json:"effective_args"`
}

func (s expectedServer) key() string { return s.File + s.Pointer }

// collection is one agent's part of a collection, copied into a world.
type collection struct {
	*world
	t     *testing.T
	agent Agent
	want  expectedAgent
}

func newCollection(t *testing.T, dir, name string, expected []byte) *collection {
	c := &collection{world: newWorld(t), t: t}
	moved := strings.NewReplacer(
		"/home/ada/src/shop", c.cwd, "/home/ada", c.home,
		"~1home~1ada~1src~1shop", strings.ReplaceAll(c.cwd, "/", "~1"), "~1home~1ada", strings.ReplaceAll(c.home, "/", "~1"))
	if err := json.Unmarshal([]byte(moved.Replace(string(expected))), &c.want); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"home": c.home, "project": c.cwd} {
		err := filepath.WalkDir(filepath.Join(dir, from), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(filepath.Join(dir, from), path)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil {
				c.write(filepath.Join(to, rel), moved.Replace(string(text)))
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	var err error
	if c.agent, err = AgentFor(name, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// env returns the environment for starting the agent by its first known command, in a folder
// that it trusts.
func (c *collection) env() Env {
	env := c.world.env()
	c.vars["GEMINI_CLI_TRUST_WORKSPACE"], c.vars["COPILOT_ALLOW_ALL"] = "true", "true"
	env.Command = []string{c.agent.Name()}
	if words := strings.Fields(kindOf(c.agent.Name()).commands); len(words) > 0 {
		env.Command = words[:1]
	}
	return env
}

// place returns the location of an entry as in expect.json.
func (c *collection) place(path, pointer string) string {
	if rel, err := filepath.Rel(c.cwd, path); err == nil && !strings.HasPrefix(rel, "..") {
		return "project/" + rel + pointer
	}
	rel, err := filepath.Rel(c.home, path)
	if err != nil {
		c.t.Fatal(err)
	}
	return "home/" + rel + pointer
}

// checkFound checks the servers found.
func (c *collection) checkFound() {
	f, err := c.agent.Find(c.env())
	if err != nil {
		c.t.Fatal(err)
	}
	got := map[string]*Entry{}
	for _, s := range f.Sources {
		for _, e := range s.Entries {
			got[c.place(s.Path, edit.Pointer(entryPath(e)))] = e
		}
	}
	here := func(s expectedServer) bool {
		for _, f := range c.want.Files {
			if f.Path == s.File && f.Platform != "" {
				return f.Platform == runtime.GOOS
			}
		}
		return true
	}
	for _, want := range c.want.Stdio {
		e := got[want.key()]
		delete(got, want.key())
		if !here(want) || e == nil && !want.Effective {
			continue
		}
		if problem := want.differs(e); problem != "" {
			c.t.Errorf("%s: %s", want.key(), problem)
		}
	}
	for _, want := range c.want.Alone {
		e := got[want.key()]
		delete(got, want.key())
		switch {
		case e == nil && here(want):
			c.t.Errorf("%s is not listed among what is left alone", want.key())
		case e != nil && e.Ungoverned == "":
			c.t.Errorf("%s is governed, and was to be left alone", want.key())
		}
	}
	for _, partial := range c.want.Partial {
		delete(got, partial.key())
	}
	for place, e := range got {
		if e.Ungoverned == "" {
			c.t.Errorf("%s was found, and is not expected", place)
		}
	}
}

// entryPath returns the path of an entry, without the member that says how the server is
// started.
func entryPath(e *Entry) []string {
	for i := len(e.Path) - 1; i >= 0; i-- {
		if e.Path[i] == e.ID {
			return e.Path[:i+1]
		}
	}
	return e.Path
}

// differs returns what is wrong with e, or "".
func (s expectedServer) differs(e *Entry) string {
	switch {
	case e == nil:
		return "not found"
	case e.Ungoverned != "":
		return "left alone: " + e.Ungoverned
	case e.ID != s.Name:
		return fmt.Sprintf("its name is %q, want %q", e.ID, s.Name)
	case s.Scope != e.Scope && !strings.HasPrefix(s.Scope, e.Scope+" ") && !strings.HasPrefix(e.Scope, s.Scope+" "):
		return fmt.Sprintf("its scope is %q, want %q", e.Scope, s.Scope)
	case !s.startedBy(append([]string{e.Command}, e.Args...)):
		return fmt.Sprintf("it is started by %q %q, want %q %q", e.Command, e.Args, s.Command, s.Args)
	case s.Enabled == (e.Off == Disabled) && (s.Why == "" || !s.Enabled):
		return fmt.Sprintf("it is %q, want enabled %v", e.Off, s.Enabled)
	case s.Effective != (e.Off == Starts):
		return fmt.Sprintf("it is %q, want effective %v (%s)", e.Off, s.Effective, s.Why)
	}
	return ""
}

// startedBy reports whether words start the server.
func (s expectedServer) startedBy(words []string) bool {
	return slices.Equal(words, append([]string{s.Command}, s.Args...)) || slices.Equal(words, s.EffectiveCommand) ||
		s.EffectiveArgs != nil && slices.Equal(words, append([]string{s.Command}, s.EffectiveArgs...))
}

// checkWrapped wraps the copy, and checks that every server that starts is governed, that what
// must be left alone is unchanged, and that all files are restored.
func (c *collection) checkWrapped() {
	var before = map[string]string{}
	for _, f := range c.want.Files {
		if path := c.path(f.Path); fileExists(path) {
			before[path] = c.read(path)
		}
	}
	p, err := NewPlan(c.agent, c.env(), c.shim)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, err := range []error{p.Lock(c.line().Session), p.Backup(), p.Prepare(c.line()), p.Apply()} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	for path := range before {
		c.checkRewritten(path, before[path])
	}
	c.restore(p)
	for path, text := range before {
		c.wantFile(path, text)
	}
	c.wantClean()
}

// path returns the path of a file in expect.json.
func (c *collection) path(file string) string {
	if rel, is := strings.CutPrefix(file, "project/"); is {
		return filepath.Join(c.cwd, rel)
	}
	return filepath.Join(c.home, strings.TrimPrefix(file, "home/"))
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkRewritten checks one file during the wrap.
func (c *collection) checkRewritten(path, before string) {
	old, err := syntaxOf(path).Parse([]byte(before))
	if err != nil {
		c.t.Fatal(err)
	}
	now, err := syntaxOf(path).Parse([]byte(c.read(path)))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range c.want.Stdio {
		at := pointerPath(s.Pointer)
		if c.path(s.File) == path && s.Effective && !strings.Contains(now.At(at).Written(), c.shim) {
			c.t.Errorf("%s is started, and not through the shim: %s", s.key(), now.At(at).Written())
		}
	}
	for _, s := range c.want.Alone {
		at := pointerPath(s.Pointer)
		isRemote := strings.Contains(now.At(at).Written(), c.shim) && strings.Contains(now.At(at).Written(), remoteFlag)
		if c.path(s.File) == path && now.At(at).Written() != old.At(at).Written() && !(isRemote && hasAddress(old.At(at))) {
			c.t.Errorf("%s was changed to %s", s.key(), now.At(at).Written())
		}
	}
}

// hasAddress reports whether an entry has an address: such a server has no command, but is governed.
func hasAddress(n edit.Node) bool {
	return slices.ContainsFunc(addressMembers, func(name string) bool { return n.Member(name).Exists() || n.Member("transport").Member(name).Exists() })
}

// pointerPath returns the path of a JSON pointer.
func pointerPath(pointer string) []string {
	var path []string
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return path
}
