package agentconf

import (
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// zed finds the servers in the settings of Zed: those of the user, and those of each opened
// folder, which override the user's.
//
// An entry with a command is a local server, one with a url a remote one, and one with neither
// has the settings of a server that an extension starts. In the user's file, the blocks for
// release channels, systems and profiles may have servers too. All of them are rewritten.
type zed struct{}

var zedList = []string{"context_servers"}

// zedChannels are the release channels.
var zedChannels = []string{"stable", "preview", "nightly", "dev"}

func (zed) Name() string { return "zed" }

func (z zed) Files(env Env) []string {
	settings, _ := z.folders(env)
	files := []string{filepath.Join(settings, "settings.json")}
	for _, dir := range invoked(env).folders {
		files = append(files, filepath.Join(dir, ".zed", "settings.json"))
	}
	return env.files(files...)
}

// folders returns Zed's settings folder, and the folder in which it installs files.
func (zed) folders(env Env) (settings, data string) {
	if dir := invoked(env).options["user-data-dir"]; dir != "" {
		data = absolute(dir, env.Cwd)
		return filepath.Join(data, "config"), data
	}
	if env.system() != "linux" {
		return filepath.Join(env.Home, ".config", "zed"), filepath.Join(env.appData(), "Zed")
	}
	settings = env.path("FLATPAK_XDG_CONFIG_HOME", env.xdg("XDG_CONFIG_HOME", ".config"))
	data = env.path("FLATPAK_XDG_DATA_HOME", env.xdg("XDG_DATA_HOME", ".local/share"))
	return filepath.Join(settings, "zed"), filepath.Join(data, "zed")
}

func (z zed) Find(env Env) (*Found, error) {
	found := &Found{}
	if invoked(env).elsewhere {
		found.leave(elsewhereWarning)
	}
	var order, user []*Entry // order: strongest first
	for i, path := range z.Files(env) {
		switch s := found.load(path, lenient, variables{}); {
		case s == nil:
		case i == 0:
			user = z.userServers(env, s)
		default:
			order = append(order, z.add(s, scopeProject, zedList)...)
		}
	}
	shadow(append(order, user...))
	if env.Config == "" {
		found.leaveOf("servers of Zed extensions are not governed", z.extensionServers(env))
	}
	return found.result()
}

// userServers adds the servers of the user's file and returns them strongest first: profiles
// override systems, and these override channels. The selected profile is not known.
func (z zed) userServers(env Env, s *Source) []*Entry {
	var order []*Entry
	block := func(scope string, active bool, path ...string) {
		entries := z.add(s, scope, append(path, zedList...))
		for _, e := range entries {
			if !active {
				e.Off = Inactive
			}
		}
		order = append(order, entries...)
	}
	for name := range s.doc.At([]string{"profiles"}).Members() {
		block(scopeProfile, false, "profiles", name.Text())
		block(scopeProfile, false, "profiles", name.Text(), "settings")
	}
	for _, system := range []string{"linux", "macos", "windows"} {
		block(scopeUser+" "+system, system == strings.ReplaceAll(env.system(), "darwin", "macos"), system)
	}
	for _, c := range zedChannels {
		block(scopeUser+" "+c, c == zedChannel(env), c)
	}
	block(scopeUser, true)
	return order
}

// zedChannel returns the release channel that the command starts: preview for zed-preview,
// dev.zed.Zed-Preview or "Zed Preview.app".
func zedChannel(env Env) string {
	for _, part := range strings.Split(launcher(env), "/") {
		part = strings.ToLower(strings.TrimSuffix(part, ".app"))
		for _, c := range zedChannels {
			if strings.HasSuffix(part, "zed-"+c) || part == "zed "+c {
				return c
			}
		}
	}
	return "stable"
}

// add adds the servers of one list.
func (zed) add(s *Source, scope string, path []string) []*Entry {
	entries := s.addServers(scope, path)
	for _, e := range entries {
		n := e.node()
		command := n.Member("command")
		switch {
		case command.Kind() == edit.Object: // has everything that other entries have at the top level
			e.useMember(zedForm, "command", command)
		case (command.Kind() == edit.Absent || command.Kind() == edit.Null) && !n.Member("url").Exists() && n.Kind() == edit.Object:
			e.Ungoverned, e.inert = "started by a Zed extension", false
		}
		if n.Member("enabled").IsFalse() {
			e.Off = Disabled
		}
	}
	return entries
}

// extensionServers returns the names of the servers of installed extensions.
func (z zed) extensionServers(env Env) []string {
	_, data := z.folders(env)
	root, _ := readSettings(filepath.Join(data, "extensions", "index.json"), lenient)
	var names []string
	for _, extension := range root.Member("extensions").Members() {
		for name := range extension.Member("manifest").Member("context_servers").Members() {
			names = append(names, name.Text())
		}
	}
	return names
}
