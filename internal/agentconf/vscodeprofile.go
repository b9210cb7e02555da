package agentconf

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// products are the editors built from the source of VS Code, by the folder that
// each has for its user data, with the commands and applications that start it.
var products = []struct{ folder, commands, bundle string }{
	{"Code", "code", "Visual Studio Code"},
	{"Code - Insiders", "code-insiders", "Visual Studio Code - Insiders"},
	{"VSCodium", "codium", "VSCodium"},
	{"VSCodium - Insiders", "codium-insiders", "VSCodium - Insiders"},
	{"Code - OSS", "code-oss", "Code - OSS"},
}

// vscodeUserData are the folders of user data that the command can lead to: one
// when it is known, otherwise those of all editors of the family.
func vscodeUserData(env Env, in invocation) []string {
	if dir := portable(env); dir != "" {
		return []string{filepath.Join(dir, "user-data")}
	}
	base := env.path("VSCODE_APPDATA", "")
	if dir := in.options["user-data-dir"]; base == "" && dir != "" {
		return []string{absolute(dir, env.Cwd)}
	}
	base = cmp.Or(base, env.appData())
	var dirs []string
	for _, p := range products {
		if startsProduct(env, p.commands, p.bundle) {
			return []string{filepath.Join(base, p.folder)}
		}
		dirs = append(dirs, filepath.Join(base, p.folder))
	}
	return dirs
}

func startsProduct(env Env, command, bundle string) bool {
	if apps := appsIn(launcher(env)); len(apps) > 0 {
		return strings.EqualFold(apps[0], bundle)
	}
	return filepath.Base(launcher(env)) == command
}

// portable is the folder of an editor that was unpacked together with its data,
// empty when it was not.
func portable(env Env) string {
	if dir := env.path("VSCODE_PORTABLE", ""); dir != "" {
		return dir
	}
	path := launcher(env)
	if path == "" {
		return ""
	}
	if !strings.Contains(path, "/") {
		path = onPath(path, env)
	}
	real, err := filepath.EvalSymlinks(absolute(path, env.Cwd))
	if err != nil {
		return ""
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(real)), "data") // beside bin
	if app, _, is := strings.Cut(real, ".app/"); is {
		dir = filepath.Join(filepath.Dir(app), "code-portable-data")
	} else if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "resources", "app")); err != nil {
		return "" // not where an editor was unpacked
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// temporaryProfile stands for a profile that is made for this run and has no
// servers.
const temporaryProfile = "--profile-temp"

// activeProfile is the profile that the editor will use: what its folder is
// called, and empty for the default one. The command line names it, or else the
// editor remembers which one goes with what is opened.
func activeProfile(env Env, in invocation, user string) string {
	if _, temporary := in.options["profile-temp"]; temporary {
		return temporaryProfile
	}
	root, _ := lookAt(filepath.Join(user, "globalStorage", "storage.json"), lenient)
	id := ""
	if name, named := in.options["profile"]; named {
		for _, p := range root.Member("userDataProfiles").Items() {
			if p.Member("name").Text() == name {
				id = p.Member("location").Text()
			}
		}
	} else {
		id = associated(root.Member("profileAssociations").Member("workspaces"), in)
	}
	for _, p := range root.Member("userDataProfiles").Items() {
		if p.Member("location").Text() == id && p.Member("useDefaultFlags").Member("mcp").IsTrue() {
			return ""
		}
	}
	return id
}

// associated is the profile that goes with what is opened.
func associated(workspaces edit.Node, in invocation) string {
	path := ""
	switch {
	case len(in.workspaces) > 0:
		path = in.workspaces[0]
	case len(in.folders) > 0:
		path = in.folders[0]
	}
	for key, id := range workspaces.Members() {
		if u, err := url.Parse(key.Text()); err == nil && u.Scheme == "file" && u.Path == path && id.Text() != "__default__profile__" {
			return id.Text()
		}
	}
	return ""
}
