package agentconf

import (
	"path/filepath"
	"slices"
	"strings"
)

// bundles are the agents that are applications on macOS, by the name of their
// bundle and by their identifier, which `open -b` takes.
var bundles = []struct{ agent, name, id string }{
	{"cursor", "Cursor", "com.todesktop.230313mzl4w4u92"},
	{"cursor", "Cursor Nightly", "co.anysphere.cursor.nightly"},
	{"vscode", "Visual Studio Code", "com.microsoft.VSCode"},
	{"vscode", "Visual Studio Code - Insiders", "com.microsoft.VSCodeInsiders"},
	{"vscode", "VSCodium", "com.vscodium"},
	{"windsurf", "Windsurf", "com.exafunction.windsurf"},
	{"windsurf", "Windsurf - Next", "com.exafunction.windsurf-next"},
	{"zed", "Zed", "dev.zed.Zed"},
	{"zed", "Zed Preview", "dev.zed.Zed-Preview"},
	{"zed", "Zed Nightly", "dev.zed.Zed-Nightly"},
	{"claude-desktop", "Claude", "com.anthropic.claudefordesktop"},
}

// Detect returns the type of the agent that a command starts, and whether it
// could tell: by the program's name, by the application that it lies in, or by
// what open(1) or `flatpak run` are told to start.
func Detect(command []string) (string, bool) {
	words := launched(command)
	if len(words) == 0 {
		return "", false
	}
	if name, ok := detectBundle(words[0]); ok {
		return name, true
	}
	base := filepath.Base(words[0])
	if name, is := appImage(base); is {
		if name == "claude" { // the terminal's Claude does not come as one
			return "claude-desktop", true
		}
		base = name
	}
	for _, k := range known {
		if slices.Contains(strings.Fields(k.commands), base) {
			return k.name, true
		}
	}
	return "", false
}

// detectBundle tells an agent by the application that a path lies in, or by the
// identifier of one. Programs in it, such as the `code` that Cursor brings
// along, are the application's whatever they are called.
func detectBundle(path string) (string, bool) {
	for _, app := range appsIn(path) {
		for _, b := range bundles {
			if strings.EqualFold(app, b.name) {
				return b.agent, true
			}
		}
		if strings.Contains(app, "Claude") {
			return "claude-desktop", true
		}
	}
	return "", false
}

// appsIn are the names of the applications that a path lies in, or the one whose
// identifier it is.
func appsIn(path string) []string {
	var apps []string
	for _, b := range bundles {
		if path == b.id {
			apps = append(apps, b.name)
		}
	}
	for _, part := range strings.Split(path, "/") {
		if app, is := strings.CutSuffix(part, ".app"); is {
			apps = append(apps, app)
		}
	}
	return apps
}

// appImage returns the program that the name of an AppImage begins with:
// cursor for Cursor-1.7.28-x86_64.AppImage.
func appImage(base string) (string, bool) {
	stem, is := strings.CutSuffix(strings.ToLower(base), ".appimage")
	if !is {
		return "", false
	}
	name, _, _ := strings.Cut(strings.ReplaceAll(stem, "_", "-"), "-")
	name, _, _ = strings.Cut(name, ".")
	return name, true
}

// launched returns the program and arguments that a command comes down to. For
// open(1) the program is the bundle or its identifier, for flatpak the
// application's identifier.
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

// launcher is the program that env's command comes down to, empty when there is
// no command.
func launcher(env Env) string {
	if words := launched(env.Command); len(words) > 0 {
		return words[0]
	}
	return ""
}

// opened reads the arguments of open(1): `-a Cursor FILE... --args ARG...`.
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
			i++ // the last letter takes a value, that of -a and -b is the application
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

// flatpakRun reads `flatpak run [OPTION...] ID [ARG...]`.
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
