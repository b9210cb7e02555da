package agentconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// copilot finds the servers of GitHub Copilot CLI.
//
// They are in the user's file and, in a trusted folder, in one of two files of the project.
// Files named on the command line override both. For each name only the strongest entry counts.
// Servers that are switched off, or whose folder is not trusted, are rewritten too, because
// both can change while Copilot CLI runs.
type copilot struct{}

// scopeAdditional is the scope of files named on the command line.
const scopeAdditional = "--additional-mcp-config"

var copilotFormat = format{syntax: lenient, vars: dollarVariables, lists: mcpServers, types: []string{"local"}}

func (copilot) Name() string { return "copilot-cli" }

func (c copilot) Files(env Env) []string {
	dir := c.cwd(env)
	return env.files(filepath.Join(c.folder(env), "mcp-config.json"), filepath.Join(dir, projectFile), filepath.Join(dir, ".github", "mcp.json"))
}

// folder returns Copilot CLI's settings folder.
func (copilot) folder(env Env) string {
	return env.path("COPILOT_HOME", filepath.Join(env.Home, ".copilot"))
}

// cwd returns the folder in which Copilot CLI will work.
func (copilot) cwd(env Env) string {
	dir := env.Cwd
	for _, to := range env.flags("-C") {
		dir = absolute(to, dir)
	}
	return dir
}

// projectFile returns the one of the project's two files that counts.
func (c copilot) projectFile(env Env) string {
	dir := c.cwd(env)
	path := filepath.Join(dir, projectFile)
	if _, err := os.Lstat(path); err != nil {
		path = filepath.Join(dir, ".github", "mcp.json")
	}
	return path
}

func (c copilot) Find(env Env) (*Found, error) {
	found := &Found{}
	if env.Config != "" {
		c.judge(found.add(env.Config, scopeUser, copilotFormat), env, found)
		return found.result()
	}
	var order []*Entry // strongest first
	for _, named := range slices.Backward(env.flags(scopeAdditional)) {
		path, isFile := strings.CutPrefix(named, "@")
		if !isFile {
			return nil, fmt.Errorf("%s defines servers on the command line, where they can't be governed; put them into a file and name it, prefixed with @", scopeAdditional)
		}
		if rest, below := strings.CutPrefix(path, "~/"); below {
			path = filepath.Join(env.Home, rest)
		}
		order = append(order, found.add(absolute(path, c.cwd(env)), scopeAdditional, copilotFormat)...)
	}
	order = append(order, found.add(c.projectFile(env), scopeProject, copilotFormat)...)
	order = append(order, found.add(filepath.Join(c.folder(env), "mcp-config.json"), scopeUser, copilotFormat)...)
	c.warnOfPlugins(env, found)
	c.judge(order, env, found)
	shadow(order)
	found.order = order
	return found.result()
}

// judge determines what Copilot CLI would do with each entry as it is.
func (c copilot) judge(order []*Entry, env Env, found *Found) {
	off := env.flags("--disable-mcp-server")
	settings, err := readSettings(filepath.Join(c.folder(env), "settings.json"), lenient)
	if err != nil {
		found.warn("can't read which servers are disabled: %v", err)
	}
	off = append(off, texts(settings.Member("disabledMcpServers"))...)
	trusted := c.trusted(env)
	for e := range each(found.Sources) {
		switch {
		case slices.Contains(off, e.ID), e.node().Member("disabled").IsTrue():
			e.Off = Disabled
		case e.Scope == scopeProject && !trusted:
			e.Off, e.Because = Pending, "copilot does not trust this folder"
		}
	}
	if !trusted && slices.ContainsFunc(order, func(e *Entry) bool { return e.Scope == scopeProject }) {
		found.warn("copilot does not trust this folder yet and starts none of its servers until you trust it")
	}
}

// trusted reports whether the servers of the project count.
func (c copilot) trusted(env Env) bool {
	if env.variable("COPILOT_ALLOW_ALL") == "true" || env.first("--trust-folder") != "" {
		return true
	}
	var folders []string
	for _, name := range []string{"config.json", "settings.json"} {
		settings, err := readSettings(filepath.Join(c.folder(env), name), lenient)
		if err != nil {
			continue
		}
		for _, key := range []string{"trustedFolders", "trusted_folders"} {
			folders = append(folders, texts(settings.Member(key))...)
		}
	}
	above := upwards(realPath(c.cwd(env)))
	return slices.ContainsFunc(folders, func(dir string) bool { return slices.Contains(above, realPath(dir)) })
}

// warnOfPlugins warns of servers that come with plugins.
func (c copilot) warnOfPlugins(env Env, found *Found) {
	dirs, _ := filepath.Glob(filepath.Join(escapeGlob(c.folder(env)), "installed-plugins", "*", "*"))
	var names []string
	for _, dir := range append(dirs, env.flags("--plugin-dir")...) {
		for _, file := range []string{projectFile, filepath.Join(".github", "mcp.json")} {
			root, err := readSettings(filepath.Join(absolute(dir, c.cwd(env)), file), lenient)
			if err == nil && root.Exists() {
				names = append(names, filepath.Base(dir))
			}
		}
	}
	found.leaveOf("servers of plugins are not governed", slices.Compact(names))
}

// Copilot CLI accepts another file by a flag. An entry in it replaces the entry of the same
// name in the other files, so it gets all settings of that entry, such as whether it is
// switched off.

// roaming are the flags with which Copilot CLI works in a folder that only it knows.
var roaming = []string{"--acp", "--resume", "-r", "--continue", "--connect", "--worktree", "-w"}

func (copilot) unfaithful(env Env, found *Found) string {
	if len(env.Command) > 1 && !strings.HasPrefix(env.Command[1], "-") {
		return "copilot " + env.Command[1] + " ignores " + scopeAdditional
	}
	if len(env.flags(scopeAdditional)) > 0 {
		return "the command line already has " + scopeAdditional
	}
	if flag := env.first(roaming...); flag != "" {
		return "with " + flag + " it may work in another folder"
	}
	for _, e := range found.order {
		if e.Off == Pending {
			return "this folder is not trusted yet: with a flag, " + e.ID + " would be started without your approval"
		}
	}
	return ""
}

func (copilot) point(_ Env, found *Found, line Line, copyPath string) (*pointed, error) {
	var servers []edit.Member
	for e := range found.strongest {
		if e.Ungoverned != "" {
			continue
		}
		text, _, err := rewrite(e.source.doc, []*Entry{e}, nil, line)
		if err != nil {
			return nil, fmt.Errorf("rewrite %s: %w", e.File, err)
		}
		doc, err := lenient.Parse(text)
		if err != nil {
			return nil, err
		}
		servers = append(servers, edit.Member{Name: e.ID, Value: plain(doc.At(e.Path))})
	}
	list := edit.Member{Name: "mcpServers", Value: strict.Table(servers)}
	return &pointed{
		args: []string{scopeAdditional, "@" + copyPath},
		copy: append([]byte(strict.Table([]edit.Member{list})), '\n'),
	}, nil
}
