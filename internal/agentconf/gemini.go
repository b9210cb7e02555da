package agentconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/jsonc"
)

// gemini knows the files of Gemini CLI.
//
// Settings come from an administrator's two files, the user's and the
// project's, and servers from extensions as well; of a name the whole entry of
// the strongest counts. There is a way to name another file with settings, but
// it must belong to the superuser, so the files are rewritten.
//
// Nothing starts in a folder that is not trusted. Its servers are rewritten all
// the same: the person may be asked, and say yes.
type gemini struct{}

// Scopes of Gemini CLI, the strongest first.
const (
	scopeSystem    = "system"
	scopeDefaults  = "system defaults"
	scopeExtension = "extension"
)

// geminiSyntax: a trailing comma ends Gemini CLI before it begins.
var geminiSyntax = jsonc.Syntax{Comments: true}

var geminiFormat = format{syntax: geminiSyntax, vars: dollarVariables, lists: mcpServers, remote: []string{"httpUrl", "url", "tcp"}}

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

// home is what Gemini CLI takes for the person's home.
func (gemini) home(env Env) string { return env.path("GEMINI_CLI_HOME", env.Home) }

// userFile is where the user's settings are.
func (g gemini) userFile(env Env) string {
	return env.files(filepath.Join(g.folder(env), "settings.json"))[0]
}

func (g gemini) folder(env Env) string { return filepath.Join(g.home(env), ".gemini") }

// projectFile is empty in the home folder, where it would be the user's.
func (g gemini) projectFile(env Env) string {
	if realPath(env.Cwd) == realPath(g.home(env)) {
		return ""
	}
	return filepath.Join(env.Cwd, ".gemini", "settings.json")
}

// systemFiles are an administrator's settings: those that beat all others, and
// those that any other beats.
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

// geminiExtension is an extension as it is installed.
type geminiExtension struct{ name, path string }

// extensions returns the files of the installed extensions. One that is linked
// lies where its developer works on it.
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
		installed, _ := lookAt(filepath.Join(dir, ".gemini-extension-install.json"), strict)
		if source := installed.Member("source").Text(); installed.Member("type").Text() == "link" && filepath.IsAbs(source) {
			dir = source
		}
		path := filepath.Join(dir, "gemini-extension.json")
		if root, err := lookAt(path, strict); err == nil && root.Exists() {
			all = append(all, geminiExtension{root.Member("name").Text(), path})
		} else if err != nil {
			all = append(all, geminiExtension{folder.Name(), path})
		}
	}
	return all
}

// addExtensions adds the servers of the extensions. One that cannot be read is
// told of: the others work without it.
func (g gemini) addExtensions(env Env, found *Found) []*Entry {
	switches, _ := lookAt(filepath.Join(g.folder(env), "extensions", "extension-enablement.json"), strict)
	chosen := env.flags("-e", "--extensions")
	var order []*Entry
	for _, x := range g.extensions(env) {
		its, how := &Found{}, geminiFormat
		how.syntax = strict
		entries := its.add(x.path, scopeExtension, how)
		if its.err != nil {
			found.warn("the servers of the extension %s are not governed: %v", x.name, its.err)
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

// geminiEnabled reports whether an extension is on in a folder. The last rule
// that matches counts: a folder, `!` before it for off, `*` behind it for all
// that is below as well.
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

// geminiRules is what Gemini CLI's settings say about which servers start.
type geminiRules struct {
	allowed  [][]string // lists of names; a server must be on each
	excluded []string
	switches edit.Node // names, in lower case, with `enabled`
	trusted  bool
}

// rules gathers what every settings file says.
func (g gemini) rules(env Env, found *Found) *geminiRules {
	system, defaults := g.systemFiles(env)
	r := &geminiRules{}
	trust := true // of folders: whether it is asked for
	for _, path := range []string{defaults, g.userFile(env), system, g.projectFile(env)} {
		settings, err := lookAt(path, geminiSyntax)
		if err != nil || path == "" {
			continue // what there is to say of it was said when its servers were read
		}
		mcp := settings.Member("mcp")
		if list := mcp.Member("allowed"); list.Kind() == edit.Array {
			r.allowed = append(r.allowed, texts(list))
		}
		r.excluded = append(r.excluded, texts(mcp.Member("excluded"))...)
		if mcp.Member("serverCommand").Kind() == edit.String {
			found.warn("the server that mcp.serverCommand of %s names is not governed", path)
		}
		if asked := settings.Member("security").Member("folderTrust").Member("enabled"); path != g.projectFile(env) && asked.Exists() {
			trust = !asked.IsFalse()
		}
	}
	if names := env.flags("--allowed-mcp-server-names"); len(names) > 0 {
		r.allowed, r.excluded = [][]string{names}, nil
	}
	r.switches, _ = lookAt(filepath.Join(g.folder(env), "mcp-server-enablement.json"), strict)
	r.trusted = g.trusted(env, trust)
	if !r.trusted {
		found.warn("gemini does not trust this folder yet, and starts no servers until you tell it to")
	}
	return r
}

// judge says of an entry what Gemini CLI would do with it as it stands.
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
		e.Off, e.Because = Disabled, "it is switched off"
	case e.Off == Starts && !r.trusted:
		e.Off, e.Because = Pending, "gemini does not trust this folder"
	}
}

// geminiName is how Gemini CLI compares the names of servers.
func geminiName(id string) string { return strings.ToLower(strings.TrimSpace(id)) }

// trusted reports whether servers start in the folder. asked says whether Gemini
// CLI is set to care.
func (g gemini) trusted(env Env, asked bool) bool {
	said := env.variable("GEMINI_CLI_TRUST_WORKSPACE")
	switch {
	case env.variable("GEMINI_RESTRICTED_MODE") == "true", said == "false":
		return false
	case said == "true", !asked, env.hasFlag("--skip-trust"):
		return true
	}
	folders, err := lookAt(env.path("GEMINI_CLI_TRUSTED_FOLDERS_PATH", filepath.Join(g.folder(env), "trustedFolders.json")), geminiSyntax)
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
