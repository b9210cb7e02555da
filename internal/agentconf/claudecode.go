package agentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// claudeCode knows the files of Claude Code.
//
// Servers stand in its own state file, once for the user and once for each
// project, and in .mcp.json of the working directory and every folder above it.
// It rewrites the state file all the time, holding a lock of its own, and keeps
// what others changed there.
//
// All entries are rewritten that it could come to start in this session, those
// too that it has switched off or has not been allowed to start: it remembers
// both by name, so that they stay so, and are governed from the first moment
// should the person change that meanwhile. The exception is an entry that its
// rules deny by the command: rewritten, it would slip past them.
type claudeCode struct{}

// Scopes of Claude Code, the strongest first.
const (
	scopeFlag    = "--mcp-config"
	scopeLocal   = "local"
	scopeProject = "project"
	scopeUser    = "user"
)

const projectFile = ".mcp.json"

// claudeFormat is that of files that hold nothing but servers.
var claudeFormat = format{syntax: strict, vars: shellVariables, lists: mcpServers}

func (claudeCode) Name() string { return "claude-code" }

func (c claudeCode) Files(env Env) []string {
	files := []string{c.stateFile(env)}
	for _, dir := range upwards(realPath(env.Cwd)) {
		files = append(files, filepath.Join(dir, projectFile))
	}
	return env.files(files...)
}

// folder is where Claude Code keeps its settings.
func (claudeCode) folder(env Env) string {
	return env.path("CLAUDE_CONFIG_DIR", filepath.Join(env.Home, ".claude"))
}

// stateFile is the file that holds the user's and the projects' servers. An old
// one takes its place as long as there is no new one.
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

// system is the folder of an administrator's files.
func (claudeCode) system(env Env) string {
	return env.managed("/etc/claude-code", "/Library/Application Support/ClaudeCode")
}

func (c claudeCode) Find(env Env) (*Found, error) {
	managed := filepath.Join(c.system(env), "managed-mcp.json")
	if _, err := os.Stat(managed); err == nil {
		return nil, fmt.Errorf("claude-code takes its servers from %s alone, which an administrator placed there and wrap cannot rewrite", managed)
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
	// A project's server that isn't approved leaves the name to others.
	shadow(slices.DeleteFunc(order, func(e *Entry) bool { return e.Scope == scopeProject && e.Off != Starts }))
	return found.result()
}

// findFiles adds what stands in the files that Claude Code reads by itself.
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

// lockFolders are the folders that an agent which locks so makes while it writes
// its file. Which of two names it goes by when that is a link is not certain.
func lockFolders(path, target string) []string {
	if path == target {
		return []string{path + ".lock"}
	}
	return []string{path + ".lock", target + ".lock"}
}

// knownLocks are the lock folders of a file that is known by its path alone.
func knownLocks(path, target string) []string {
	if !slices.Contains([]string{".claude.json", ".config.json", clineFile}, filepath.Base(path)) {
		return nil
	}
	return lockFolders(path, target)
}

// projectKeys are the names under which the state file knows a folder: that of
// the repository, and its own.
func projectKeys(cwd string) []string {
	here := realPath(cwd)
	if root, ok := repository(here); ok && root != here {
		return []string{root, here}
	}
	return []string{here}
}

// upwards returns a folder and all above it, the nearest first.
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

// claudeFlags is what a command line of Claude Code says of servers.
type claudeFlags struct {
	files  []string // the strongest first
	strict bool     // no others
}

// mcpConfigFlags reads --mcp-config, which takes every word up to the next flag,
// and --strict-mcp-config. Servers that are spelt out on the command line cannot
// be rewritten and would start ungoverned.
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
			return flags, fmt.Errorf("%s spells servers out on the command line, where they cannot be governed; put them into a file and name that", scopeFlag)
		}
		flags.files = append([]string{absolute(value, env.Cwd)}, flags.files...)
	}
	return flags, nil
}
