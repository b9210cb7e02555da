package agentconf

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// invocation is what the command line of an editor says of where its settings
// are, and of what it opens.
type invocation struct {
	folders    []string          // opened, absolute; the current one when none is named
	workspaces []string          // files that list the folders of a workspace
	elsewhere  bool              // something on another host or in a container is opened
	options    map[string]string // long options by their name, with their values if they have one
}

// valued are the long options of editors whose value is the next word. Of others
// it would be taken for something to open, which does no harm unless a folder is
// called so.
var valued = strings.Fields("user-data-dir profile extensions-dir extensions-download-dir locale log goto " +
	"folder-uri file-uri remote sync category install-extension uninstall-extension enable-proposed-api " +
	"disable-extension add-mcp shared-data-dir crash-reporter-directory logsPath zed workspace")

// invoked reads the command line of an editor.
func invoked(env Env) invocation {
	in := invocation{options: map[string]string{}}
	words := launched(env.Command)
	bare := false // past a --, all words name something to open
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
	case remote: // what is named is there, not here
		in.folders, in.workspaces = nil, nil
	case len(in.folders)+len(in.workspaces) == 0 && !in.elsewhere:
		in.folders = []string{filepath.Clean(env.Cwd)}
	}
	return in
}

// open takes a word that names something to open. Files, and what is not there,
// bring no servers along.
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
