package agentconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

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
