package agentconf

import (
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// vscode knows the files of Visual Studio Code and of what else is built from
// its source.
//
// Servers stand in mcp.json of the folders that are opened, in the file of a
// workspace of several folders, and in mcp.json of the user, of which every
// profile has one of its own. Older versions kept them in settings.json, and
// newer ones also read the portable .mcp.json of a folder and Copilot's file. Of
// several servers of one name, in whatever case, the first in this order is
// started, unless a setting says that all are.
//
// The files of all profiles are rewritten, since the person can change to another
// at any time. Servers of a devcontainer.json are started in the container, where
// our program isn't, and stay as they are.
type vscode struct{}

// Scopes of VS Code.
const (
	scopeWorkspace = "workspace"
	scopeProfile   = "user profile"
)

// portableType is what the portable files call servers that are started here.
const portableType = "local"

// Where the list of servers stands in a file.
var (
	vscodeList     = [][]string{{"servers"}}
	settingsLists  = [][]string{{"mcp", "servers"}, {"mcp.servers"}}
	workspaceLists = [][]string{{"settings", "mcp", "servers"}, {"settings", "mcp.servers"}}
)

// vscodeFile is a file in which servers can stand.
type vscodeFile struct {
	path, scope string
	lists       [][]string
	folder      string // what ${workspaceFolder} stands for
	// settings: most such files have nothing to do with servers, and are not our
	// concern as long as they don't.
	settings bool
	inactive bool // counts in another profile than the one in use
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

// workspace are the files of what is opened, the strongest first.
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

// folders are those that are opened, by name or as part of a workspace.
func (vscode) folders(env Env, in invocation) []string {
	folders := slices.Clone(in.folders)
	for _, path := range in.workspaces {
		s, err := load(path, lenient)
		if s == nil || err != nil {
			continue // told of when it is read for its servers
		}
		for _, item := range s.doc.Root().Member("folders").Items() {
			if dir := item.Member("path"); dir.Kind() == edit.String {
				folders = append(folders, absolute(dir.Text(), filepath.Dir(path)))
			}
		}
	}
	return folders
}

// user are the files of a folder of user data, the strongest first.
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
