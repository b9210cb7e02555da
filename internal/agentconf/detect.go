package agentconf

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Detect returns the type of the agent that a command starts, and whether it is known. It looks
// at the program's name, at the application that contains the program, and at the arguments of
// open(1) and `flatpak run`.
func Detect(command []string) (string, bool) {
	words := launched(command)
	if len(words) == 0 {
		return "", false
	}
	if name, ok := detectBundle(words[0]); ok {
		return name, true
	}
	base := filepath.Base(words[0])
	for _, name := range appImage(base) {
		if name == "claude" { // Claude Code is not available as an AppImage
			return "claude-desktop", true
		}
		if k := kindWith(name); k.Agent != nil {
			return k.Name(), true
		}
	}
	if k := kindWith(base); k.Agent != nil {
		return k.Name(), true
	}
	return "", false
}

// kindWith returns the row of the agent with a command, or an empty one.
func kindWith(command string) kind {
	for _, k := range kinds {
		if slices.Contains(strings.Fields(k.commands), command) {
			return k
		}
	}
	return kind{}
}

// detectBundle detects an agent by the application that contains a path, or by an application's
// identifier. A program in an application, such as the `code` of Cursor, belongs to it whatever
// its name.
func detectBundle(path string) (string, bool) {
	for _, app := range appsIn(path) {
		for _, k := range kinds {
			if slices.ContainsFunc(k.bundles, func(b bundle) bool { return strings.EqualFold(app, b.name) }) {
				return k.Name(), true
			}
		}
		if strings.Contains(app, "Claude") {
			return "claude-desktop", true
		}
	}
	return "", false
}

// appsIn returns the names of the applications that contain a path, or of the one with that
// identifier.
func appsIn(path string) []string {
	var apps []string
	for _, k := range kinds {
		for _, b := range k.bundles {
			if path == b.id {
				apps = append(apps, b.name)
			}
		}
	}
	for _, part := range strings.Split(path, "/") {
		if app, is := strings.CutSuffix(part, ".app"); is {
			apps = append(apps, app)
		}
	}
	return apps
}

// appImage returns the program names with which an AppImage's name may begin, the longest first:
// zed-preview and zed, after longer ones, for Zed-Preview-1.0-x86_64.AppImage. It returns nil for
// the name of another program.
func appImage(base string) []string {
	stem, is := strings.CutSuffix(strings.ToLower(base), ".appimage")
	if !is {
		return nil
	}
	words := strings.FieldsFunc(stem, func(r rune) bool { return strings.ContainsRune("-_. ", r) })
	var names []string
	for n := len(words); n > 0; n-- {
		names = append(names, strings.Join(words[:n], "-"))
	}
	return names
}

// launched returns the program and arguments that a command starts. For open(1) the program is
// the bundle or its identifier, for flatpak the identifier of the application.
func launched(command []string) []string {
	if len(command) == 0 {
		return nil
	}
	switch filepath.Base(command[0]) {
	case "open":
		return opened(command[1:])
	case "flatpak":
		return flatpakRun(command)
	}
	return command
}

// launcher returns the program that env's command starts, or "" if there is no command.
func launcher(env Env) string {
	if words := launched(env.Command); len(words) > 0 {
		return words[0]
	}
	return ""
}

// opened parses the arguments of open(1): `-a Cursor FILE... --args ARG...`.
func opened(args []string) []string {
	var program string
	var rest []string
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--args":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && i+1 < len(args) && strings.ContainsAny(word[len(word)-1:], "abhiosu"):
			i++ // the last letter takes a value, which for -a and -b is the application
			switch word[len(word)-1] {
			case 'a':
				program = strings.TrimSuffix(args[i], ".app") + ".app"
			case 'b':
				program = args[i]
			}
		case (word == "--env" || word == "--stdin" || word == "--stdout" || word == "--stderr" || word == "--arch") && i+1 < len(args):
			i++
		case strings.HasPrefix(word, "-"):
		case program == "" && strings.HasSuffix(strings.TrimSuffix(word, "/"), ".app"):
			program = word
		default:
			rest = append(rest, word)
		}
	}
	if program == "" {
		return nil
	}
	return append([]string{program}, rest...)
}

// flatpakRun parses `flatpak run [OPTION...] ID [ARG...]`.
func flatpakRun(command []string) []string {
	if len(command) < 2 || command[1] != "run" {
		return command
	}
	for i, word := range command[2:] {
		if !strings.HasPrefix(word, "-") {
			return command[2+i:]
		}
	}
	return command
}

// inTerminal are commands of such agents that have no windows.
var inTerminal = []string{"cursor-agent"}

// Launches reports whether the command only launches an application with windows.
func Launches(agent string, command []string) bool {
	return Windowed(agent) && !slices.Contains(inTerminal, filepath.Base(launcher(Env{Command: command})))
}

// IsProgram reports whether the program at path belongs to a windowed agent's application, by
// its bundle or its name. If the command itself has such a name, only that name matches: `code`
// is not `codium`.
func IsProgram(agent string, command []string, path string) bool {
	if is, ok := detectBundle(path); ok {
		return is == agent
	}
	base := strings.ToLower(filepath.Base(strings.TrimSuffix(path, " (deleted)")))
	k := kindOf(agent)
	if own := filepath.Base(launcher(Env{Command: command})); agent == "vscode" && k.runs(own) {
		return base == own
	}
	return k.runs(base)
}

// invocation is what an editor's command line says about where its settings are and what it
// opens.
type invocation struct {
	folders    []string          // opened folders, absolute; the current one if none is named
	workspaces []string          // files that list the folders of a workspace
	elsewhere  bool              // something on another host or in a container is opened
	options    map[string]string // long options by name, with their values
}

// valued are the long options of editors whose value is the next word. The value of an unknown
// option is taken for something to open, which only matters if a folder has that name. Most are
// those of VS Code and of the editors that derive from it; --zed PATH is Zed's, --workspace DIR is
// cursor-agent's.
var valued = strings.Fields("user-data-dir profile extensions-dir extensions-download-dir locale log goto " +
	"folder-uri file-uri remote sync category install-extension uninstall-extension enable-proposed-api " +
	"disable-extension add-mcp shared-data-dir crash-reporter-directory logsPath zed workspace")

// invoked parses the command line of an editor.
func invoked(env Env) invocation {
	in := invocation{options: map[string]string{}}
	words := launched(env.Command)
	bare := false // after --, all words name something to open
	for i := 1; i < len(words); i++ {
		name, value, direct := strings.Cut(strings.TrimPrefix(words[i], "--"), "=")
		switch {
		case bare || !strings.HasPrefix(words[i], "-"):
			in.open(words[i], env)
			continue
		case words[i] == "--":
			bare = true
			continue
		case !strings.HasPrefix(words[i], "--"):
			continue
		case !direct && slices.Contains(valued, name) && i+1 < len(words):
			i++
			value = words[i]
		}
		in.options[name] = value
		switch name {
		case "folder-uri", "file-uri":
			in.open(value, env)
		case "remote":
			in.elsewhere = true
		}
	}
	_, remote := in.options["remote"]
	switch {
	case remote: // the folders named are remote
		in.folders, in.workspaces = nil, nil
	case len(in.folders)+len(in.workspaces) == 0 && !in.elsewhere:
		in.folders = []string{filepath.Clean(env.Cwd)}
	}
	return in
}

// open adds what a word names. Files, and paths that do not exist, have no servers.
func (in *invocation) open(word string, env Env) {
	if scheme, _, is := strings.Cut(word, "://"); is {
		u, err := url.Parse(word)
		if scheme != "file" || err != nil {
			in.elsewhere = true
			return
		}
		word = u.Path
	}
	path := absolute(word, env.Cwd)
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir():
		if !slices.Contains(in.folders, path) {
			in.folders = append(in.folders, path)
		}
	case strings.HasSuffix(path, ".code-workspace"):
		in.workspaces = append(in.workspaces, path)
	}
}
