package agentconf

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/tomledit"
)

// codex finds the servers of Codex CLI.
//
// Codex CLI merges several files and takes each field of a server from the strongest file that
// has it. A project can give a user's server other arguments without a command. So an entry
// that has a command, arguments or a limit to be raised is rewritten to have both command and
// arguments, with their merged values. It then starts tg-shim completely, whatever the weaker
// files say.
//
// Files of a project count only once the person trusts it. They are rewritten before that as
// well, because trust may be given while Codex runs.
type codex struct{}

// File and key of Codex CLI, and its scope besides the usual ones.
const (
	scopeCodexProfile = "profile"
	codexFile         = "config.toml"
	codexKey          = "mcp_servers"
)

func (codex) Name() string { return "codex" }

func (c codex) Files(env Env) []string { return pathsOf(c.layers(env)) }

// layers returns the files that may be rewritten, weakest first.
func (c codex) layers(env Env) []scoped {
	if env.Config != "" {
		return []scoped{{env.Config, scopeUser}}
	}
	folder := c.folder(env)
	layers := []scoped{{filepath.Join(folder, codexFile), scopeUser}}
	for _, name := range env.flags("-p", "--profile") {
		layers = append(layers, scoped{filepath.Join(folder, name+"."+codexFile), scopeCodexProfile})
	}
	for _, dir := range slices.Backward(upwards(realPath(c.cwd(env)))) {
		if path := filepath.Join(dir, ".codex", codexFile); path != layers[0].path {
			layers = append(layers, scoped{path, scopeProject})
		}
	}
	return layers
}

// folder returns Codex's settings folder.
func (codex) folder(env Env) string {
	return env.path("CODEX_HOME", filepath.Join(env.Home, ".codex"))
}

// cwd returns the folder in which Codex will work.
func (codex) cwd(env Env) string {
	dir := env.Cwd
	for _, to := range env.flags("-C", "--cd") {
		dir = absolute(to, env.Cwd)
	}
	return dir
}

// system returns the folder of an administrator's files.
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
		found.setError(err)
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
			found.warn("codex does not trust this project yet and starts no server of %s until you trust it", l.path)
		}
	}
	servers.setOff()
	found.order = servers.order()
	if env.Config == "" {
		c.judge(env, found, servers)
	}
	return found.result()
}

// trusts reports whether the person trusts a project's file in dir: the folder, or the project
// in which Codex is started.
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

// refuseSpelledOut returns an error if the command line says how a server is started, because
// that overrides any file.
func (codex) refuseSpelledOut(env Env) error {
	for _, word := range env.flags("-c", "--config") {
		key, _, _ := strings.Cut(word, "=")
		steps := strings.Split(strings.TrimSpace(key), ".")
		if steps[0] != codexKey {
			continue
		}
		if len(steps) < 3 || slices.Contains([]string{"command", "args", "env", "url"}, steps[2]) {
			return fmt.Errorf("-c %s defines servers on the command line, where they can't be governed; put them into a file", key)
		}
	}
	return nil
}

// judge applies an administrator's settings to servers that other files name.
func (c codex) judge(env Env, found *Found, servers codexServers) {
	path := filepath.Join(c.system(env), "managed_config.toml")
	managed, err := readSettings(path, tomledit.Syntax{})
	found.setError(err)
	for name, value := range managed.Member(codexKey).Members() {
		told := value.Member("command").Exists() || value.Member("args").Exists() || value.Member("url").Exists()
		if told {
			found.leave("server %s is not governed: %s, an administrator's file, defines how it is started", name.Text(), path)
		}
		for _, e := range servers.of(name.Text()).entries {
			if told {
				e.stays = "an administrator set it in " + path
			}
			if told && e.Ungoverned == "" {
				e.Ungoverned = "set by an administrator in " + path
			}
			if value.Member("enabled").IsFalse() {
				e.Off = Disabled
			}
		}
	}
	c.require(filepath.Join(c.system(env), "requirements.toml"), found, servers)
}

// require applies an administrator's list of servers, each with the one command that is allowed
// for it. A server that is not allowed stays as it is, so that Codex still refuses it.
func (codex) require(path string, found *Found, servers codexServers) {
	requirements, err := readSettings(path, tomledit.Syntax{})
	found.setError(err)
	list := requirements.Member(codexKey)
	if !list.Exists() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		allowed := list.Member(name).Member("identity").Member("command")
		starts := false
		for _, e := range servers[name].entries {
			e.stays = path + " allows servers by how they are started"
			if e.Ungoverned != "" {
				continue
			}
			if allowed.Kind() != edit.String || allowed.Text() != e.Command {
				e.Off, e.Ungoverned = Disabled, "not allowed by "+path+", so codex does not start it"
			}
			starts = starts || e.Ungoverned == "" && e.Off == Starts
		}
		if starts {
			found.warn("%s allows servers by their exact command, so codex may not start %s, whose command is now %s", path, name, shimName)
		}
	}
}

// codexServers are the servers of Codex by name, merged from all files added so far, weakest
// first.
type codexServers map[string]*codexServer

// codexServer is one server with the value of each field from the strongest file that has it.
type codexServer struct {
	command string
	args    []string
	off     bool
	limits  map[string]float64 // values after the rewrite
	entries []*Entry           // entries that say how it is started, weakest first
}

// codexNames matches the server names that Codex accepts.
var codexNames = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// of returns the server with the given name, and makes it if there is none.
func (m codexServers) of(name string) *codexServer {
	if m[name] == nil {
		m[name] = &codexServer{limits: map[string]float64{}}
	}
	return m[name]
}

// below adds a file that is not rewritten and whose entries are parsed already.
func (m codexServers) below(s *Source) {
	for _, e := range s.Entries {
		server, n := m.of(e.ID), e.node()
		server.learn(n)
		server.entries = append(server.entries, e)
	}
}

// isWhole reports whether an entry has both command and arguments.
func isWhole(n edit.Node) bool { return n.Member("command").Exists() && n.Member("args").Exists() }

// add adds a file. A pending file is read as if it counted, but does not affect stronger files.
func (m codexServers) add(s *Source, scope string, pending bool) {
	for name, value := range s.doc.At([]string{codexKey}).Members() {
		server := m.of(name.Text())
		if pending {
			server = server.copied()
		}
		server.learn(value)
		e := server.entry(value, name.Text())
		if e == nil {
			continue
		}
		s.add(e, scope, name.Text(), codexKey, name.Text())
		if pending {
			e.Off, e.Because = Pending, "codex does not trust this project"
		}
		if pending && server.off {
			e.Off, e.Because = Disabled, ""
		}
		if !pending {
			server.entries = append(server.entries, e)
		}
	}
}

func (server *codexServer) copied() *codexServer {
	other := *server
	other.limits = maps.Clone(server.limits)
	return &other
}

// learn applies the fields of one file.
func (server *codexServer) learn(n edit.Node) {
	if command := n.Member("command"); command.Kind() == edit.String {
		server.command = command.Text()
	}
	if args := n.Member("args"); args.Kind() == edit.Array {
		server.args = texts(args)
	}
	if enabled := n.Member("enabled"); enabled.Exists() {
		server.off = enabled.IsFalse()
	}
}

// entry parses a file's entry for the server. It returns nil if the entry neither says how the
// server is started nor sets a limit that must be raised.
func (server *codexServer) entry(n edit.Node, name string) *Entry {
	command, args := n.Member("command"), n.Member("args")
	says := n.Kind() != edit.Object || command.Exists() || args.Exists() || n.Member("url").Exists()
	if !says && (server.command == "" || !tooTight(n)) {
		return nil
	}
	e := usualForm.read(n)
	switch {
	case !codexNames.MatchString(name):
		e.address = false
		e.refuse("codex does not accept its name")
	case command.Exists() || args.Exists() && args.Kind() != edit.Array || n.Member("url").Exists():
	case server.command == "":
		e.refuse("no file names its command")
	default: // the command comes from a weaker file
		e.Command, e.Ungoverned, e.inert = server.command, "", false
	}
	if !args.Exists() {
		e.Args = server.args
	}
	e.limits = server.limited(n, e.Ungoverned == "")
	return e
}

// tooTight reports whether a file sets a limit that is too low.
func tooTight(n edit.Node) bool {
	return slices.ContainsFunc(kindOf(codex{}.Name()).raises, func(l limit) bool {
		number, ok := numberOf(n.Member(l.key).Raw())
		return ok && number < float64(l.min)
	})
}

// limited returns the limits to be raised in an entry. If the entry lacks a setting that a
// weaker file has, that value must not be lowered.
func (server *codexServer) limited(n edit.Node, governed bool) []limit {
	out := slices.Clone(kindOf(codex{}.Name()).raises)
	for i, l := range out {
		number, ok := numberOf(n.Member(l.key).Raw())
		if !ok {
			number = server.limits[l.key]
			out[i].optional = number >= float64(l.min)
		}
		if governed {
			number = max(number, float64(l.min))
		}
		server.limits[l.key] = number
	}
	return out
}

// setOff sets Off of the entries that do not count: those of a server that is switched off, and
// those below an entry that has both command and arguments.
func (m codexServers) setOff() {
	for _, server := range m {
		whole := false
		for _, e := range slices.Backward(server.entries) {
			switch {
			case server.off:
				e.Off = Disabled
			case whole && e.Off == Starts:
				e.Off = Shadowed
			}
			whole = whole || isWhole(e.node())
		}
	}
}

// order returns the entries of all servers, strongest first within each server.
func (m codexServers) order() []*Entry {
	var all []*Entry
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, e := range slices.Backward(m[name].entries) {
			all = append(all, e)
		}
	}
	return all
}

// Codex CLI accepts single settings on its command line, which override the files member by
// member. So it gets only how each server is started, two environment variables, and limits
// that are too low. Every user who lists processes can read them, as they can the server's own
// command line; the environment of a server is not among them.

// unsteady are the verbs and flags with which Codex CLI works in other folders than this one,
// or skips files that it would read here.
var unsteady = strings.Fields("app-server exec-server mcp-server remote-control cloud resume fork --remote --ignore-user-config")

func (c codex) unfaithful(env Env, found *Found) string {
	if word := env.first(unsteady...); word != "" {
		return "with " + word + " codex may read other files"
	}
	for e := range each(found.Sources) {
		if e.Off == Pending {
			return "this project is not trusted yet: with a flag, " + e.ID + " would be started without your approval"
		}
	}
	return ""
}

func (codex) point(_ Env, found *Found, line Line, _ string) (*pointed, error) {
	syntax, out := tomledit.Syntax{}, &pointed{}
	strongestFirst := slices.Clone(found.Sources)
	slices.Reverse(strongestFirst)
	for e := range found.strongest {
		if e.Ungoverned != "" {
			continue
		}
		set := func(key, value string) {
			out.args = append(out.args, "-c", codexKey+"."+e.ID+"."+key+"="+value)
		}
		words := line.of(e).words(syntax.Quote(e.ID), syntax.Quote(e.Command), syntax)
		for _, arg := range e.Args {
			words = append(words, syntax.Quote(arg))
		}
		set("command", syntax.Quote(line.Shim))
		set("args", syntax.List(words))
		for _, member := range line.env(syntax) {
			set("env."+member.Name, member.Value)
		}
		// Not those of the entry, which assume that weaker files are rewritten too.
		for _, l := range tooLow(strongestFirst, e.Path, kindOf(codex{}.Name()).raises) {
			set(l.key, strconv.Itoa(l.min))
		}
	}
	return out, nil
}
