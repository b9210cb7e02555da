package agentconf

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

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
