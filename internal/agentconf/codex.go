package agentconf

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/tomledit"
)

// codex knows the files of Codex CLI.
//
// It reads several, one above the other, and takes each field of a server from
// the highest that has it: a project may give a user's server other arguments
// and leave its command alone. An entry that has one of the two, or a limit that
// has to be raised, is therefore rewritten to have both, as they come out, so that
// it starts the shim whole whatever the files below it say.
//
// Files of a project count only once the person trusts it. They are rewritten
// before that too: trust may come while Codex runs.
type codex struct{}

// What Codex CLI reads, and its scope besides the usual ones.
const (
	scopeCodexProfile = "profile"
	codexFile         = "config.toml"
	codexKey          = "mcp_servers"
)

func (codex) Name() string { return "codex" }

func (c codex) Files(env Env) []string {
	var paths []string
	for _, l := range c.layers(env) {
		paths = append(paths, l.path)
	}
	return paths
}

// codexLayer is one of the files.
type codexLayer struct{ path, scope string }

// layers are the files that may be rewritten, the weakest first.
func (c codex) layers(env Env) []codexLayer {
	if env.Config != "" {
		return []codexLayer{{env.Config, scopeUser}}
	}
	folder := c.folder(env)
	layers := []codexLayer{{filepath.Join(folder, codexFile), scopeUser}}
	for _, name := range env.flags("-p", "--profile") {
		layers = append(layers, codexLayer{filepath.Join(folder, name+"."+codexFile), scopeCodexProfile})
	}
	for _, dir := range slices.Backward(upwards(realPath(c.cwd(env)))) {
		if path := filepath.Join(dir, ".codex", codexFile); path != layers[0].path {
			layers = append(layers, codexLayer{path, scopeProject})
		}
	}
	return layers
}

// folder is where Codex keeps its settings.
func (codex) folder(env Env) string {
	return env.path("CODEX_HOME", filepath.Join(env.Home, ".codex"))
}

// cwd is the folder in which Codex will work.
func (codex) cwd(env Env) string {
	dir := env.Cwd
	for _, to := range env.flags("-C", "--cd") {
		dir = absolute(to, env.Cwd)
	}
	return dir
}

// system is the folder of an administrator's files.
func (codex) system(env Env) string { return env.managed("/etc/codex", "/etc/codex") }

func (c codex) Find(env Env) (*Found, error) {
	if err := c.refuseSpelledOut(env); err != nil {
		return nil, err
	}
	found, servers := &Found{}, codexServers{}
	if env.Config == "" {
		found.addManaged(filepath.Join(c.system(env), codexFile), scopeSystem, format{syntax: tomledit.Syntax{}, lists: [][]string{{codexKey}}})
		for _, s := range found.Sources {
			servers.below(s)
		}
	}
	var user edit.Node
	for _, l := range c.layers(env) {
		s, err := load(l.path, tomledit.Syntax{})
		found.fail(err)
		if s == nil || slices.ContainsFunc(found.Sources, func(have *Source) bool { return have.file.path == s.file.path }) {
			continue
		}
		found.Sources = append(found.Sources, s)
		if l.scope == scopeUser {
			user = s.doc.Root()
		}
		pending := l.scope == scopeProject && !c.trusts(user, filepath.Dir(filepath.Dir(l.path)), env)
		servers.add(s, l.scope, pending)
		if pending && len(s.Entries) > 0 {
			found.warn("codex does not trust this project yet, and starts none of the servers of %s until you tell it to", l.path)
		}
	}
	servers.settle()
	found.order = servers.order()
	if env.Config == "" {
		c.judge(env, found, servers)
	}
	return found.result()
}

// trusts reports whether the person trusts what a project's file in dir says:
// the folder, or the project that Codex is started in.
func (c codex) trusts(user edit.Node, dir string, env Env) bool {
	levels := map[string]string{}
	for key, project := range user.Member("projects").Members() {
		levels[realPath(key.Text())] = project.Member("trust_level").Text()
	}
	for _, key := range append([]string{realPath(dir)}, projectKeys(c.cwd(env))...) {
		if level, said := levels[key]; said {
			return level == "trusted"
		}
	}
	return false
}

// refuseSpelledOut refuses a command line that says how a server is started:
// that counts for more than any file.
func (codex) refuseSpelledOut(env Env) error {
	for _, word := range env.flags("-c", "--config") {
		key, _, _ := strings.Cut(word, "=")
		steps := strings.Split(strings.TrimSpace(key), ".")
		if steps[0] != codexKey {
			continue
		}
		if len(steps) < 3 || slices.Contains([]string{"command", "args", "env", "url"}, steps[2]) {
			return fmt.Errorf("-c %s spells servers out on the command line, where they cannot be governed; put them into a file", key)
		}
	}
	return nil
}

// judge applies what an administrator says of servers that other files name.
func (c codex) judge(env Env, found *Found, servers codexServers) {
	path := filepath.Join(c.system(env), "managed_config.toml")
	managed, err := lookAt(path, tomledit.Syntax{})
	found.fail(err)
	for name, value := range managed.Member(codexKey).Members() {
		told := value.Member("command").Exists() || value.Member("args").Exists() || value.Member("url").Exists()
		if told {
			found.warn("server %s is not governed: %s, which is an administrator's, says how it is started", name.Text(), path)
		}
		for _, e := range servers.of(name.Text()).entries {
			if told && e.Ungoverned == "" {
				e.Ungoverned = "an administrator's, from " + path
			}
			if value.Member("enabled").IsFalse() {
				e.Off = Disabled
			}
		}
	}
	c.require(filepath.Join(c.system(env), "requirements.toml"), found, servers)
}

// require applies an administrator's list of servers, each with the one command
// that it may be started by. What is not allowed stays as it is, so that Codex
// goes on refusing it.
func (codex) require(path string, found *Found, servers codexServers) {
	requirements, err := lookAt(path, tomledit.Syntax{})
	found.fail(err)
	list := requirements.Member(codexKey)
	if !list.Exists() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		allowed := list.Member(name).Member("identity").Member("command")
		starts := false
		for _, e := range servers[name].entries {
			if e.Ungoverned != "" {
				continue
			}
			if allowed.Kind() != edit.String || allowed.Text() != e.Command {
				e.Off, e.Ungoverned = Disabled, "not allowed by "+path+"; it stays as it is, so that codex refuses it"
			}
			starts = starts || e.Ungoverned == "" && e.Off == Starts
		}
		if starts {
			found.warn("%s allows servers by their exact command, and codex may not start %s, which is started through %s now", path, name, shimName)
		}
	}
}
