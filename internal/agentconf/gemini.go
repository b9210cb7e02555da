package agentconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/jsonc"
)

// gemini finds the servers of Gemini CLI.
//
// Settings come from two files of an administrator, the user's and the project's; extensions
// have servers as well. For each name only the strongest entry counts. Another settings file
// can be named, but it must belong to the superuser, so the files are rewritten.
//
// No server starts in a folder that is not trusted. Its servers are rewritten nevertheless,
// because the person may be asked and trust it.
type gemini struct{}

// Scopes of Gemini CLI, the strongest first.
const (
	scopeSystem    = "system"
	scopeDefaults  = "system defaults"
	scopeExtension = "extension"
)

// geminiSyntax does not accept trailing commas: Gemini CLI does not start with one.
var geminiSyntax = jsonc.Syntax{Comments: true}

var geminiFormat = format{syntax: geminiSyntax, vars: dollarVariables, lists: mcpServers, remote: []string{"httpUrl", "url", "tcp"}}

// geminiRemotes says that one member with an address tells the transport. For the other, some versions try
// one, and some both.
var geminiRemotes = remoteKind{bare: map[string]Transport{"httpUrl": HTTP}}

func (gemini) Name() string { return "gemini" }

func (g gemini) Files(env Env) []string {
	files := []string{filepath.Join(g.folder(env), "settings.json")}
	if path := g.projectFile(env); path != "" {
		files = append(files, path)
	}
	for _, x := range g.extensions(env) {
		files = append(files, x.path)
	}
	return env.files(files...)
}

// home returns the folder that Gemini CLI takes for the person's home.
func (gemini) home(env Env) string { return env.path("GEMINI_CLI_HOME", env.Home) }

// userFile returns the path of the user's settings.
func (g gemini) userFile(env Env) string {
	return env.files(filepath.Join(g.folder(env), "settings.json"))[0]
}

func (g gemini) folder(env Env) string { return filepath.Join(g.home(env), ".gemini") }

// projectFile returns the project's settings file, or "" in the home folder, where it would be
// the user's.
func (g gemini) projectFile(env Env) string {
	if realPath(env.Cwd) == realPath(g.home(env)) {
		return ""
	}
	return filepath.Join(env.Cwd, ".gemini", "settings.json")
}

// systemFiles returns the two settings files of an administrator: the strongest and the weakest
// of all.
func (gemini) systemFiles(env Env) (settings, defaults string) {
	dir := env.managed("/etc/gemini-cli", "/Library/Application Support/GeminiCli")
	settings = env.path("GEMINI_CLI_SYSTEM_SETTINGS_PATH", filepath.Join(dir, "settings.json"))
	return settings, env.path("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", filepath.Join(filepath.Dir(settings), "system-defaults.json"))
}

func (g gemini) Find(env Env) (*Found, error) {
	found := &Found{}
	system, defaults := g.systemFiles(env)
	order := found.addManaged(system, scopeSystem, geminiFormat)
	if path := g.projectFile(env); path != "" && env.Config == "" {
		order = append(order, found.add(path, scopeProject, geminiFormat)...)
	}
	order = append(order, found.add(g.userFile(env), scopeUser, geminiFormat)...)
	order = append(order, found.addManaged(defaults, scopeDefaults, geminiFormat)...)
	if env.Config == "" {
		order = append(order, g.addExtensions(env, found)...)
	}
	rules := g.rules(env, found)
	for _, e := range order {
		rules.judge(e)
	}
	shadow(order)
	return found.result()
}

// geminiExtension is an installed extension.
type geminiExtension struct{ name, path string }

// extensions returns the files of the installed extensions. A linked extension is in its
// developer's folder.
func (g gemini) extensions(env Env) []geminiExtension {
	top := filepath.Join(g.folder(env), "extensions")
	names, err := os.ReadDir(top)
	if err != nil {
		return nil
	}
	var all []geminiExtension
	for _, folder := range names {
		dir := filepath.Join(top, folder.Name())
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		installed, _ := readSettings(filepath.Join(dir, ".gemini-extension-install.json"), strict)
		if source := installed.Member("source").Text(); installed.Member("type").Text() == "link" && filepath.IsAbs(source) {
			dir = source
		}
		path := filepath.Join(dir, "gemini-extension.json")
		if root, err := readSettings(path, strict); err == nil && root.Exists() {
			all = append(all, geminiExtension{root.Member("name").Text(), path})
		} else if err != nil {
			all = append(all, geminiExtension{folder.Name(), path})
		}
	}
	return all
}

// addExtensions adds the servers of the extensions. An extension that can't be read becomes a
// warning, because the others work without it.
func (g gemini) addExtensions(env Env, found *Found) []*Entry {
	switches, _ := readSettings(filepath.Join(g.folder(env), "extensions", "extension-enablement.json"), strict)
	chosen := env.flags("-e", "--extensions")
	var order []*Entry
	for _, x := range g.extensions(env) {
		its, how := &Found{}, geminiFormat
		how.syntax = strict
		entries := its.add(x.path, scopeExtension, how)
		if its.err != nil {
			found.leave("the servers of the extension %s are not governed: %v", x.name, its.err)
			continue
		}
		found.Sources = append(found.Sources, its.Sources...)
		on := geminiEnabled(texts(switches.Member(x.name).Member("overrides")), env.Cwd)
		if len(chosen) > 0 {
			on = slices.ContainsFunc(chosen, func(name string) bool { return strings.EqualFold(name, x.name) })
		}
		for _, e := range entries {
			if !on {
				e.Off = Disabled
			}
		}
		order = append(order, entries...)
	}
	return order
}

// geminiEnabled reports whether an extension is on in a folder. The last matching rule counts.
// A rule is a folder, with `!` before it for off and `*` after it to include all folders below.
func geminiEnabled(rules []string, cwd string) bool {
	on := true
	here := strings.TrimSuffix(filepath.ToSlash(cwd), "/") + "/"
	for _, rule := range rules {
		dir, off := strings.CutPrefix(rule, "!")
		above, below := strings.CutSuffix(dir, "*")
		if here == above || below && strings.HasPrefix(here, above) {
			on = !off
		}
	}
	return on
}

// geminiRules are the settings of Gemini CLI that decide which servers start.
type geminiRules struct {
	allowed  [][]string // lists of names; a server must be on each
	excluded []string
	switches edit.Node // names in lower case, with `enabled`
	trusted  bool
}

// rules reads the rules in all settings files.
func (g gemini) rules(env Env, found *Found) *geminiRules {
	system, defaults := g.systemFiles(env)
	r := &geminiRules{}
	trust := true // whether Gemini CLI requires trust in folders
	for _, path := range []string{defaults, g.userFile(env), system, g.projectFile(env)} {
		settings, err := readSettings(path, geminiSyntax)
		if err != nil || path == "" {
			continue // reported when the servers of the file were read
		}
		mcp := settings.Member("mcp")
		if list := mcp.Member("allowed"); list.Kind() == edit.Array {
			r.allowed = append(r.allowed, texts(list))
		}
		r.excluded = append(r.excluded, texts(mcp.Member("excluded"))...)
		if mcp.Member("serverCommand").Kind() == edit.String {
			found.leave("the server named by mcp.serverCommand in %s is not governed", path)
		}
		if asked := settings.Member("security").Member("folderTrust").Member("enabled"); path != g.projectFile(env) && asked.Exists() {
			trust = !asked.IsFalse()
		}
	}
	if names := env.flags("--allowed-mcp-server-names"); len(names) > 0 {
		r.allowed, r.excluded = [][]string{names}, nil
	}
	r.switches, _ = readSettings(filepath.Join(g.folder(env), "mcp-server-enablement.json"), strict)
	r.trusted = g.trusted(env, trust)
	if !r.trusted {
		found.warn("gemini does not trust this folder yet and starts no servers until you trust it")
	}
	return r
}

// judge determines what Gemini CLI would do with an entry as it is.
func (r *geminiRules) judge(e *Entry) {
	name := geminiName(e.ID)
	listed := func(list []string) bool {
		return slices.ContainsFunc(list, func(entry string) bool { return geminiName(entry) == name })
	}
	for _, list := range r.allowed {
		if len(list) > 0 && !listed(list) {
			e.Off, e.Because = Disabled, "mcp.allowed does not name it"
		}
	}
	switch {
	case listed(r.excluded):
		e.Off, e.Because = Disabled, "mcp.excluded names it"
	case r.switches.Member(name).Member("enabled").IsFalse():
		e.Off, e.Because = Disabled, "it is disabled"
	case e.Off == Starts && !r.trusted:
		e.Off, e.Because = Pending, "gemini does not trust this folder"
	}
}

// geminiName returns the form of a server's name that Gemini CLI compares.
func geminiName(id string) string { return strings.ToLower(strings.TrimSpace(id)) }

// trusted reports whether servers start in the folder. asked says whether Gemini CLI requires
// trust.
func (g gemini) trusted(env Env, asked bool) bool {
	said := env.variable("GEMINI_CLI_TRUST_WORKSPACE")
	switch {
	case env.variable("GEMINI_RESTRICTED_MODE") == "true", said == "false":
		return false
	case said == "true", !asked, env.first("--skip-trust") != "":
		return true
	}
	folders, err := readSettings(env.path("GEMINI_CLI_TRUSTED_FOLDERS_PATH", filepath.Join(g.folder(env), "trustedFolders.json")), geminiSyntax)
	if err != nil {
		return false
	}
	here, longest, trusted := realPath(env.Cwd), -1, false
	for name, level := range folders.Members() {
		dir := name.Text()
		if level.Text() == "TRUST_PARENT" {
			dir = filepath.Dir(dir)
		}
		if len(name.Text()) > longest && slices.Contains(upwards(here), realPath(dir)) {
			longest, trusted = len(name.Text()), level.Text() == "TRUST_FOLDER" || level.Text() == "TRUST_PARENT"
		}
	}
	return trusted
}
