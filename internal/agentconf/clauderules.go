package agentconf

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// claudeRules is what Claude Code's own settings say about which servers start.
type claudeRules struct {
	off      []string // disabledMcpServers: any scope, by name
	rejected []string // disabledMcpjsonServers: project scope, by name
	approved []string // enabledMcpjsonServers
	all      bool     // enableAllProjectMcpServers
	prints   bool     // an answer, and leaves: then what waits for approval is started
	lists    serverLists
	managed  bool // allowManagedMcpServersOnly: of what is allowed, only an administrator's list counts
}

// readClaudeRules gathers the rules from the state file and from every settings
// file that Claude Code reads. A settings file that does not parse is told of:
// Claude Code doesn't heed it either.
//
// What a project's own files, and what is remembered of the project, approve
// counts for nothing until the person has said that the folder is to be trusted.
// What they reject counts anyway.
func readClaudeRules(c claudeCode, env Env, found *Found) *claudeRules {
	rules := &claudeRules{prints: slices.ContainsFunc(env.words(), func(word string) bool { return word == "-p" || word == "--print" })}
	trusted := false
	var remembered []edit.Node
	for _, s := range found.Sources {
		for _, key := range projectKeys(env.Cwd) {
			remembered = append(remembered, s.doc.At([]string{"projects", key}))
		}
		for _, dir := range upwards(realPath(env.Cwd)) { // trust is for all below
			trusted = trusted || s.doc.At([]string{"projects", dir, "hasTrustDialogAccepted"}).IsTrue()
		}
	}
	for _, project := range remembered {
		rules.add(project, trusted)
	}
	read := func(path string, approves bool) edit.Node {
		settings, err := lookAt(path, lenient)
		if err != nil {
			found.warn("the rules of %s are not known: %v", path, err)
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

// addLists adds the lists of one file. What several files allow is allowed.
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
	found.warnOf("servers that plugins bring along are not governed", names)
}

// warnOfSubagents tells of servers that stand in the files of subagents, or in
// --agents, and that only those start.
func (c claudeCode) warnOfSubagents(env Env, found *Found) {
	dirs := []string{c.folder(env)}
	for _, key := range projectKeys(env.Cwd) {
		dirs = append(dirs, filepath.Join(key, ".claude"))
	}
	for _, dir := range dirs {
		paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "agents", "*.md"))
		for _, path := range paths {
			f, err := readAnybodys(path)
			if err != nil {
				continue // so it is for the agent
			}
			head, _, _ := strings.Cut(strings.TrimPrefix(string(f.data), "---\n"), "\n---")
			if strings.Contains("\n"+head, "\nmcpServers:") {
				found.warn("servers of the subagent in %s are not governed", path)
			}
		}
	}
	for _, value := range env.flags("--agents") {
		if strings.Contains(value, `"mcpServers"`) {
			found.warn("servers of the subagents in --agents are not governed")
		}
	}
}

// judge says of an entry what Claude Code would do with it as it stands.
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
	c := e.candidate(found.node(e).Member("url").Text(), env)
	if why := r.lists.refuses(c); why != "" {
		e.Off, e.Because = Denied, why
	}
	switch {
	case e.Ungoverned != "":
	case r.lists.deniesCommand(c):
		// Rewritten, the entry would slip past a rule that names its command. What
		// names it in another way holds for the rewritten one too.
		e.Ungoverned = "claude-code's own rules deny its command; it stays as it is, so that they do"
	case e.Off == Starts && r.lists.exactly(c):
		found.warn("claude-code allows %s by its exact command (allowedMcpServers), and will not start it through %s: "+
			"ask for it to be allowed by its name, or start the agent without a wrap", e.ID, shimName)
	}
}

// texts returns the items of an array of strings.
func texts(n edit.Node) []string {
	var out []string
	for _, item := range n.Items() {
		if item.Kind() == edit.String {
			out = append(out, item.Text())
		}
	}
	return out
}
