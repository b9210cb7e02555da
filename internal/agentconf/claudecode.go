package agentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// claudeCode finds the servers of Claude Code.
//
// They are in its state file, for the user and for each project, and in .mcp.json of the
// working directory and every folder above it. Claude Code writes the state file all the time,
// under a lock of its own, and keeps changes of others.
//
// All entries that it could start in this session are rewritten, including those that are
// switched off or not yet approved. It remembers both by name, so they stay as they are, and if
// the person changes that, they are governed at once. The exception is an entry that its rules
// deny by the command: rewritten, it would pass the rule.
type claudeCode struct{}

// Scopes of Claude Code, the strongest first.
const (
	scopeFlag    = "--mcp-config"
	scopeLocal   = "local"
	scopeProject = "project"
	scopeUser    = "user"
)

const projectFile = ".mcp.json"

// claudeFormat is the format of files that hold only servers.
var claudeFormat = format{syntax: strict, vars: shellVariables, lists: mcpServers}

func (claudeCode) Name() string { return "claude-code" }

func (c claudeCode) Files(env Env) []string {
	files := []string{c.stateFile(env)}
	for _, dir := range upwards(realPath(env.Cwd)) {
		files = append(files, filepath.Join(dir, projectFile))
	}
	return env.files(files...)
}

// folder returns Claude Code's settings folder.
func (claudeCode) folder(env Env) string {
	return env.path("CLAUDE_CONFIG_DIR", filepath.Join(env.Home, ".claude"))
}

// stateFile returns the path of the file with the servers of the user and the projects. If it
// does not exist, an old one is used.
func (c claudeCode) stateFile(env Env) string {
	if env.Config != "" {
		return env.Config
	}
	path := filepath.Join(env.path("CLAUDE_CONFIG_DIR", env.Home), ".claude.json")
	old := filepath.Join(c.folder(env), ".config.json")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if info, err := os.Stat(old); err == nil && info.Size() > 0 {
			return old
		}
	}
	return path
}

// system returns the folder of an administrator's files.
func (claudeCode) system(env Env) string {
	return env.managed("/etc/claude-code", "/Library/Application Support/ClaudeCode")
}

func (c claudeCode) Find(env Env) (*Found, error) {
	managed := filepath.Join(c.system(env), "managed-mcp.json")
	if _, err := os.Stat(managed); err == nil {
		return nil, fmt.Errorf("claude-code takes its servers only from %s, an administrator's file, which wrap can't rewrite", managed)
	}
	found := &Found{}
	flags, err := mcpConfigFlags(env)
	if err != nil {
		return nil, err
	}
	var order []*Entry // strongest first
	for _, path := range flags.files {
		order = append(order, found.add(path, scopeFlag, claudeFormat)...)
	}
	if !flags.strict {
		order = append(order, c.findFiles(env, found)...)
	}
	rules := readClaudeRules(c, env, found)
	for _, e := range order {
		rules.judge(e, env, found)
	}
	c.warnOfSubagents(env, found)
	if !flags.strict {
		c.leaveConnectors(env, found)
	}
	// A project's server that isn't approved does not shadow others.
	shadow(slices.DeleteFunc(order, func(e *Entry) bool { return e.Scope == scopeProject && e.Off != Starts }))
	return found.result()
}

// findFiles adds the files that Claude Code reads by default.
func (c claudeCode) findFiles(env Env, found *Found) []*Entry {
	path := c.stateFile(env)
	var order, user []*Entry
	if state := found.load(path, strict, shellVariables); state != nil {
		state.AgentLocks = lockFolders(path, state.file.path)
		for _, key := range projectKeys(env.Cwd) {
			order = append(order, state.addServers(scopeLocal, []string{"projects", key, "mcpServers"})...)
		}
		user = state.addServers(scopeUser, []string{"mcpServers"})
	}
	if env.Config == "" {
		for _, dir := range upwards(realPath(env.Cwd)) {
			order = append(order, found.add(filepath.Join(dir, projectFile), scopeProject, claudeFormat)...)
		}
	}
	return append(order, user...)
}

// lockFolders returns the folders that an agent with this kind of lock makes while it writes
// its file. If path is a link, it is not certain which of the two it uses.
func lockFolders(path, target string) []string {
	if path == target {
		return []string{path + ".lock"}
	}
	return []string{path + ".lock", target + ".lock"}
}

// knownLocks returns the lock folders of a file of which only the path is known.
func knownLocks(path, target string) []string {
	if !slices.Contains([]string{".claude.json", ".config.json", clineFile}, filepath.Base(path)) {
		return nil
	}
	return lockFolders(path, target)
}

// projectKeys returns the keys of a folder in the state file: the repository, and the folder
// itself.
func projectKeys(cwd string) []string {
	here := realPath(cwd)
	if root, ok := repository(here); ok && root != here {
		return []string{root, here}
	}
	return []string{here}
}

// upwards returns a folder and all folders above it, nearest first.
func upwards(dir string) []string {
	dirs := []string{dir}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return filepath.Clean(dir)
}

func absolute(path, cwd string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}

// claudeFlags are the flags of Claude Code that concern servers.
type claudeFlags struct {
	files  []string // strongest first
	strict bool     // no other files are read
}

// mcpConfigFlags parses --mcp-config, which takes all words up to the next flag, and
// --strict-mcp-config. It is an error if the command line itself has servers: they can't be
// rewritten and would start ungoverned.
func mcpConfigFlags(env Env) (claudeFlags, error) {
	var flags claudeFlags
	taking := false
	for _, word := range env.words() {
		value, direct := strings.CutPrefix(word, scopeFlag+"=")
		switch {
		case word == "--strict-mcp-config":
			flags.strict, taking = true, false
			continue
		case word == scopeFlag:
			taking = true
			continue
		case direct:
			taking = false
		case strings.HasPrefix(word, "-"):
			taking = false
			continue
		case !taking:
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(value), "{") {
			return flags, fmt.Errorf("%s defines servers on the command line, where they can't be governed; put them into a file and name it", scopeFlag)
		}
		flags.files = append([]string{absolute(value, env.Cwd)}, flags.files...)
	}
	return flags, nil
}

// claudeRules are the settings of Claude Code that decide which servers start.
type claudeRules struct {
	off      []string // disabledMcpServers: any scope, by name
	rejected []string // disabledMcpjsonServers: project scope, by name
	approved []string // enabledMcpjsonServers
	all      bool     // enableAllProjectMcpServers
	prints   bool     // Claude Code prints an answer and exits, and starts servers that wait for approval
	lists    serverLists
	managed  bool // allowManagedMcpServersOnly: only an administrator's list of allowed servers counts
}

// readClaudeRules reads the rules in the state file and in every settings file that Claude Code
// reads. A settings file that does not parse becomes a warning: Claude Code ignores it too.
//
// Approvals in a project's files, and those remembered for the project, count only once the
// person trusts the folder. Rejections always count.
func readClaudeRules(c claudeCode, env Env, found *Found) *claudeRules {
	rules := &claudeRules{prints: slices.ContainsFunc(env.words(), func(word string) bool { return word == "-p" || word == "--print" })}
	trusted := false
	var remembered []edit.Node
	for _, s := range found.Sources {
		for _, key := range projectKeys(env.Cwd) {
			remembered = append(remembered, s.doc.At([]string{"projects", key}))
		}
		for _, dir := range upwards(realPath(env.Cwd)) { // trust includes all folders below
			trusted = trusted || s.doc.At([]string{"projects", dir, "hasTrustDialogAccepted"}).IsTrue()
		}
	}
	for _, project := range remembered {
		rules.add(project, trusted)
	}
	read := func(path string, approves bool) edit.Node {
		settings, err := readSettings(path, lenient)
		if err != nil {
			found.warn("can't read the rules of %s: %v", path, err)
		}
		rules.add(settings, approves)
		rules.addLists(settings, path)
		warnOfPlugins(settings, found)
		return settings
	}
	managed, _ := filepath.Glob(filepath.Join(escapeGlob(c.system(env)), "managed-settings.d", "*.json"))
	for _, path := range append([]string{filepath.Join(c.system(env), "managed-settings.json")}, managed...) {
		rules.managed = read(path, true).Member("allowManagedMcpServersOnly").IsTrue() || rules.managed
	}
	administrators := rules.lists
	for _, name := range []string{"settings.json", "settings.local.json"} {
		read(filepath.Join(c.folder(env), name), true)
		for _, key := range projectKeys(env.Cwd) {
			read(filepath.Join(key, ".claude", name), trusted)
		}
	}
	if rules.managed {
		rules.lists.allowed, rules.lists.listed = administrators.allowed, administrators.listed
	}
	return rules
}

// add adds the rules of one file. approves says whether its approvals count.
func (r *claudeRules) add(settings edit.Node, approves bool) {
	r.off = append(r.off, texts(settings.Member("disabledMcpServers"))...)
	r.rejected = append(r.rejected, texts(settings.Member("disabledMcpjsonServers"))...)
	if approves {
		r.approved = append(r.approved, texts(settings.Member("enabledMcpjsonServers"))...)
		r.all = r.all || settings.Member("enableAllProjectMcpServers").IsTrue()
	}
}

// addLists adds the lists of one file. The allowed lists of several files are combined.
func (r *claudeRules) addLists(settings edit.Node, path string) {
	read := func(key string) []serverRule {
		var rules []serverRule
		for _, item := range settings.Member(key).Items() {
			rules = append(rules, serverRule{
				name: item.Member("serverName").Text(), command: texts(item.Member("serverCommand")), url: item.Member("serverUrl").Text(),
				place: key + " in " + path,
			})
		}
		return rules
	}
	r.lists.denied = append(r.lists.denied, read("deniedMcpServers")...)
	r.lists.allowed = append(r.lists.allowed, read("allowedMcpServers")...)
	r.lists.listed = r.lists.listed || settings.Member("allowedMcpServers").Kind() == edit.Array
}

func warnOfPlugins(settings edit.Node, found *Found) {
	var names []string
	for name, on := range settings.Member("enabledPlugins").Members() {
		if on.IsTrue() {
			names = append(names, name.Text())
		}
	}
	found.leaveOf("servers of plugins are not governed", names)
}

// leaveConnectors leaves the connectors of the account at claude.ai, which are in no file: Claude Code
// notes only the names of those that it has connected to.
func (c claudeCode) leaveConnectors(env Env, found *Found) {
	if off := env.variable("ENABLE_CLAUDEAI_MCP_SERVERS"); off == "false" || off == "0" {
		return
	}
	path := c.stateFile(env)
	for _, s := range found.Sources {
		if s.Path == path {
			found.leaveOf("connectors of the account at claude.ai, to which the agent itself logs in, are not governed; add each as a server with an address, use `tgctl login ID`, and set ENABLE_CLAUDEAI_MCP_SERVERS=false",
				texts(s.doc.Root().Member("claudeAiMcpEverConnected")))
		}
	}
}

// warnOfSubagents warns of servers that are in the files of subagents, or in --agents, and that
// only subagents start.
func (c claudeCode) warnOfSubagents(env Env, found *Found) {
	dirs := []string{c.folder(env)}
	for _, key := range projectKeys(env.Cwd) {
		dirs = append(dirs, filepath.Join(key, ".claude"))
	}
	for _, dir := range dirs {
		paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "agents", "*.md"))
		for _, path := range paths {
			f, err := readFileOfAnyOwner(path)
			if err != nil {
				continue // the agent can't read it either
			}
			head, _, _ := strings.Cut(strings.TrimPrefix(string(f.data), "---\n"), "\n---")
			if strings.Contains("\n"+head, "\nmcpServers:") {
				found.leave("servers of the subagent in %s are not governed", path)
			}
		}
	}
	for _, value := range env.flags("--agents") {
		if strings.Contains(value, `"mcpServers"`) {
			found.leave("servers of the subagents in --agents are not governed")
		}
	}
}

// judge determines what Claude Code would do with an entry as it is.
func (r *claudeRules) judge(e *Entry, env Env, found *Found) {
	switch {
	case slices.Contains(r.off, e.ID):
		e.Off, e.Because = Disabled, "disabledMcpServers names it"
	case e.Scope != scopeProject:
	case slices.Contains(r.rejected, e.ID):
		e.Off, e.Because = Disabled, "disabledMcpjsonServers names it"
	case !r.all && !r.prints && !slices.Contains(r.approved, e.ID):
		e.Off = Pending
	}
	c := e.candidate(e.node().Member("url").Text(), env)
	if r.lists.listed {
		e.stays = "a list of allowed servers (allowedMcpServers) would not match it any more"
	}
	if why := r.lists.refuses(c); why != "" {
		e.Off, e.Because = Denied, why
	}
	switch {
	case e.Ungoverned != "":
	case r.lists.deniesCommand(c):
		// If rewritten, the entry would pass a rule that names its command. A rule that names
		// the server in another way still matches.
		e.Ungoverned = "denied by claude-code's own rules for its command, which a rewrite would bypass"
	case e.Off == Starts && r.lists.exactly(c):
		found.warn("claude-code allows %s only by its exact command (allowedMcpServers) and does not start it through %s: "+
			"have it allowed by its name, or start the agent without a wrap", e.ID, shimName)
	}
}

// texts returns the strings in an array.
func texts(n edit.Node) []string {
	var out []string
	for _, item := range n.Items() {
		if item.Kind() == edit.String {
			out = append(out, item.Text())
		}
	}
	return out
}

// hookFlag returns the flag that takes more settings, unless it is used already.
func (claudeCode) hookFlag(env Env) string {
	if env.first("--settings", "--managed-settings") != "" {
		return ""
	}
	return "--settings"
}

// Folders returns the folders for which the state file has servers.
func (c claudeCode) Folders(env Env) ([]string, error) {
	state, err := load(c.stateFile(env), strict)
	if state == nil || err != nil {
		return nil, err
	}
	var folders []string
	for name, project := range state.doc.At([]string{"projects"}).Members() {
		for range project.Member("mcpServers").Members() {
			if filepath.IsAbs(name.Text()) {
				folders = append(folders, name.Text())
			}
			break
		}
	}
	return folders, nil
}
