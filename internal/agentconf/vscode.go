package agentconf

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// vscode finds the servers of Visual Studio Code and of other editors built from its source.
//
// They are in mcp.json of opened folders, in the file of a workspace with several folders, and
// in mcp.json of the user, which exists once for each profile. Older versions stored them in
// settings.json. Newer ones also read the portable .mcp.json of a folder, and Copilot's file.
// Of several servers with the same name, ignoring case, the first in this order is started,
// unless a setting says that all are.
//
// The files of all profiles are rewritten, because the person can switch profiles at any time.
// Servers of a devcontainer.json are started in the container, where tg-shim does not exist,
// and stay as they are.
type vscode struct{}

// Scopes of VS Code.
const (
	scopeWorkspace = "workspace"
	scopeProfile   = "user profile"
)

// portableType is the name of local servers in the portable files.
const portableType = "local"

// Paths of the list of servers in a file.
var (
	vscodeList     = [][]string{{"servers"}}
	settingsLists  = [][]string{{"mcp", "servers"}, {"mcp.servers"}}
	workspaceLists = [][]string{{"settings", "mcp", "servers"}, {"settings", "mcp.servers"}}
)

// vscodeFile is a file that may have servers.
type vscodeFile struct {
	path, scope string
	lists       [][]string
	folder      string // value of ${workspaceFolder}
	// settings marks a settings file. Most of these have nothing to do with servers. One that
	// can't have servers is skipped even if invalid.
	settings bool
	inactive bool // belongs to a profile that is not in use
}

func (vscode) Name() string { return "vscode" }

func (v vscode) Files(env Env) []string {
	in := invoked(env)
	paths := make([]string, 0, 16)
	for _, f := range v.workspace(env, in) {
		paths = append(paths, f.path)
	}
	for _, dir := range vscodeUserData(env, in) {
		for _, f := range v.user(env, in, dir) {
			paths = append(paths, f.path)
		}
	}
	return env.files(paths...)
}

// workspace returns the files of what is opened, strongest first.
func (v vscode) workspace(env Env, in invocation) []vscodeFile {
	var files []vscodeFile
	for _, dir := range v.folders(env, in) {
		files = append(files,
			vscodeFile{path: filepath.Join(dir, ".vscode", "mcp.json"), scope: scopeWorkspace, lists: vscodeList, folder: dir},
			vscodeFile{path: filepath.Join(dir, projectFile), scope: scopeWorkspace + " root", lists: mcpServers, folder: dir},
			vscodeFile{path: filepath.Join(dir, ".vscode", "settings.json"), scope: scopeWorkspace + " settings", lists: settingsLists, folder: dir, settings: true})
	}
	for _, path := range in.workspaces {
		files = append(files, vscodeFile{path: path, scope: scopeWorkspace + " file", lists: workspaceLists, folder: filepath.Dir(path), settings: true})
	}
	return files
}

// folders returns the opened folders, including those of a workspace.
func (vscode) folders(env Env, in invocation) []string {
	folders := slices.Clone(in.folders)
	for _, path := range in.workspaces {
		s, err := load(path, lenient)
		if s == nil || err != nil {
			continue // reported when it is read for its servers
		}
		for _, item := range s.doc.Root().Member("folders").Items() {
			if dir := item.Member("path"); dir.Kind() == edit.String {
				folders = append(folders, absolute(dir.Text(), filepath.Dir(path)))
			}
		}
	}
	return folders
}

// user returns the files in a folder of user data, strongest first.
func (v vscode) user(env Env, in invocation, dir string) []vscodeFile {
	user := filepath.Join(dir, "User")
	active := activeProfile(env, in, user)
	var files []vscodeFile
	profile := func(dir, scope string, inactive bool) {
		files = append(files,
			vscodeFile{path: filepath.Join(dir, "mcp.json"), scope: scope, lists: vscodeList, folder: env.Home, inactive: inactive},
			vscodeFile{path: filepath.Join(dir, "settings.json"), scope: scope + " settings", lists: settingsLists, folder: env.Home, settings: true, inactive: inactive})
	}
	profile(user, scopeUser, active != "")
	for _, id := range foldersIn(filepath.Join(user, "profiles")) {
		profile(filepath.Join(user, "profiles", id), scopeProfile, active != id)
	}
	if env.OwnOnly {
		return files
	}
	return append(files, vscodeFile{path: filepath.Join(copilot{}.folder(env), "mcp-config.json"), scope: scopeUser + " copilot", lists: mcpServers, folder: env.Home})
}

func (v vscode) Find(env Env) (*Found, error) {
	found := &Found{}
	if env.Config != "" {
		found.addVSCode(env, vscodeFile{path: env.Config, scope: scopeUser, folder: env.Cwd,
			lists: slices.Concat(vscodeList, mcpServers, settingsLists, workspaceLists)})
		return found.result()
	}
	in := invoked(env)
	if in.elsewhere {
		found.leave(elsewhereWarning)
	}
	workspace := v.workspace(env, in)
	opened := found.addVSCode(env, workspace...)
	for _, dir := range vscodeUserData(env, in) {
		files := v.user(env, in, dir)
		user := found.addVSCode(env, files...)
		found.applyVSCodeSettings(slices.Concat(workspace, files), slices.Concat(opened, user))
	}
	for _, dir := range v.folders(env, in) {
		found.warnOfContainer(dir)
	}
	return found.result()
}

// addVSCode adds the files that exist and have servers, and returns these in the order of the
// files.
func (f *Found) addVSCode(env Env, files ...vscodeFile) (order []*Entry) {
	for _, file := range files {
		s, err := load(file.path, lenient)
		if err != nil && !(file.settings && !canHaveServers(file.path)) {
			f.setError(err)
		}
		if s == nil || err != nil {
			continue
		}
		s.vars = editorVariables(env, file.folder)
		s.vars.tilde = true
		format{lists: file.lists, types: []string{portableType}}.read(s, file.scope)
		if filepath.Base(file.path) == projectFile && !s.doc.Root().Member("mcpServers").Exists() {
			s.addFlat(file.scope)
		}
		if file.settings && len(s.Entries) == 0 && (len(s.doc.Doubts()) == 0 || !canHaveServers(file.path)) {
			continue
		}
		f.Sources = append(f.Sources, s)
		for _, e := range s.Entries {
			if file.inactive {
				e.Off = Inactive
			}
			f.warnOfVSCode(e, e.node())
		}
		order = append(order, s.Entries...)
	}
	return order
}

// addFlat adds the servers of a file whose root is the list of servers. Members that are no
// servers are ignored.
func (s *Source) addFlat(scope string) {
	s.addServers(scope, nil, portableType)
	s.Entries = slices.DeleteFunc(s.Entries, func(e *Entry) bool {
		n := e.node()
		return !n.Member("command").Exists() && !n.Member("url").Exists()
	})
}

// canHaveServers reports whether a settings file that is invalid may have servers, because the
// editor reads what it can of it. An empty file has none, and neither has one without the name
// of the list in any spelling.
func canHaveServers(path string) bool {
	f, err := readFileOfAnyOwner(path)
	return err != nil || slices.ContainsFunc([]string{`"mcp"`, `"mcp.`, `\u`}, func(part string) bool { return strings.Contains(string(f.data), part) })
}

// warnOfVSCode warns of what will not work for an entry after the rewrite.
func (f *Found) warnOfVSCode(e *Entry, n edit.Node) {
	if e.Ungoverned != "" {
		return
	}
	if n.Member("dev").Member("debug").Exists() {
		f.warn("the debugger that server %s requests (dev.debug) would attach to %s instead", e.ID, shimName)
	}
	if n.Member("sandboxEnabled").IsTrue() {
		f.warn("server %s runs in the editor's sandbox (sandboxEnabled), which may block %s from the daemon", e.ID, shimName)
	}
}

// applyVSCodeSettings applies the settings that concern all servers. Files and entries come strongest first.
func (f *Found) applyVSCodeSettings(files []vscodeFile, order []*Entry) {
	setting := func(name string) edit.Node {
		for _, file := range files {
			if !file.settings || file.inactive {
				continue
			}
			// An invalid file would have been an error if it mattered.
			root, _ := readSettings(file.path, lenient)
			if n := root.Member(name); n.Exists() {
				return n
			}
		}
		return edit.Node{}
	}
	access := setting("chat.mcp.access").Text()
	for _, e := range order {
		if access == "none" || access == "registry" && !e.node().Member("gallery").Exists() {
			e.Off, e.Because = Denied, "chat.mcp.access is "+access
		}
	}
	if setting("chat.mcp.collisionBehavior").Text() != "suffix" {
		shadowBy(strings.ToLower, order)
	}
	const discovery = "chat.mcp.discovery.enabled"
	others := setting(discovery) // a boolean, or one for each other agent
	on := others.IsTrue()
	for _, agent := range others.Members() {
		on = on || agent.IsTrue()
	}
	if on {
		f.leave("servers that the editor reads from files of other agents (%s) are not governed", discovery)
	}
}

// devcontainers are the files in an opened folder that define a development container.
var devcontainers = []string{".devcontainer.json", ".devcontainer/devcontainer.json", ".devcontainer/*/devcontainer.json"}

// warnOfContainer warns of servers that are started in a container.
func (f *Found) warnOfContainer(dir string) {
	for _, pattern := range devcontainers {
		paths, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		for _, path := range paths {
			root, _ := readSettings(path, lenient) // an invalid file is left to the program that makes the container
			for name := range root.Member("customizations").Member("vscode").Member("mcp").Member("servers").Members() {
				f.leave("server %s of %s is started in the container and is not governed", name.Text(), path)
			}
		}
	}
}

// products are the editors built from the source of VS Code, with their folder for user data
// and the command and application that start them.
var products = []struct{ folder, commands, bundle string }{
	{"Code", "code", "Visual Studio Code"},
	{"Code - Insiders", "code-insiders", "Visual Studio Code - Insiders"},
	{"VSCodium", "codium", "VSCodium"},
	{"VSCodium - Insiders", "codium-insiders", "VSCodium - Insiders"},
	{"Code - OSS", "code-oss", "Code - OSS"},
}

// vscodeUserData returns the folders of user data for the command: one if the editor is known,
// otherwise those of all products.
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

// portable returns the data folder of a portable installation, or "" if the editor is not
// portable.
func portable(env Env) string {
	if dir := env.path("VSCODE_PORTABLE", ""); dir != "" {
		return dir
	}
	path := env.program(launcher(env))
	real, err := filepath.EvalSymlinks(path)
	if err != nil || path == "" {
		return ""
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(real)), "data") // beside bin
	if app, _, is := strings.Cut(real, ".app/"); is {
		dir = filepath.Join(filepath.Dir(app), "code-portable-data")
	} else if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "resources", "app")); err != nil {
		return "" // not a folder of an unpacked editor
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// temporaryProfile stands for a profile that is made for one run and has no servers.
const temporaryProfile = "--profile-temp"

// activeProfile returns the folder name of the profile that the editor will use, or "" for the
// default profile. It comes from the command line, or from the profile stored for what is
// opened.
func activeProfile(env Env, in invocation, user string) string {
	if _, temporary := in.options["profile-temp"]; temporary {
		return temporaryProfile
	}
	root, _ := readSettings(filepath.Join(user, "globalStorage", "storage.json"), lenient)
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

// associated returns the profile stored for what is opened.
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
