package agentconf

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/yamledit"
)

// goose finds the servers of Goose in the user's file, the files named by a variable, and one
// file of an administrator. If several have an extension of the same name, the user's counts.
//
// Most extensions of Goose are servers; some run inside Goose and are left alone. Goose
// rewrites the user's file without its comments when it changes a setting.
type goose struct{}

const (
	gooseKey       = "extensions"
	scopeGooseMore = "additional"
)

// gooseTypes describes the types of extensions that do not start a local server.
var gooseTypes = map[string]string{
	"builtin":       "a part of goose itself (builtin)",
	"platform":      "a part of goose itself (platform)",
	"frontend":      "run by goose's frontend (frontend)",
	"inline_python": "run inside goose (inline_python)",
}

func (goose) Name() string { return "goose" }

func (g goose) Files(env Env) []string {
	files := []string{filepath.Join(g.folder(env), "config.yaml")}
	return env.files(append(files, g.additional(env)...)...)
}

// folder returns Goose's settings folder, which is the same on macOS. Relative paths are
// ignored.
func (goose) folder(env Env) string {
	if root := env.variable("GOOSE_PATH_ROOT"); filepath.IsAbs(root) {
		return filepath.Join(root, "config")
	}
	return filepath.Join(env.xdg("XDG_CONFIG_HOME", ".config"), "goose")
}

// additional returns the files named by a variable, strongest first.
func (goose) additional(env Env) []string {
	var files []string
	for _, path := range filepath.SplitList(env.variable("GOOSE_ADDITIONAL_CONFIG_FILES")) {
		if path != "" {
			files = append(files, absolute(path, env.Cwd))
		}
	}
	slices.Reverse(files)
	return files
}

func (g goose) Find(env Env) (*Found, error) {
	if words := env.flags("--with-extension"); len(words) > 0 {
		return nil, fmt.Errorf("--with-extension defines servers on the command line, where they can't be governed; put them into %s", filepath.Join(g.folder(env), "config.yaml"))
	}
	found := &Found{}
	var order []*Entry // strongest first
	for i, path := range g.Files(env) {
		scope := scopeUser
		if i > 0 {
			scope = scopeGooseMore
		}
		if s := found.load(path, yamledit.Syntax{}, variables{}); s != nil {
			order = append(order, g.extensions(s, scope)...)
		}
	}
	if env.Config == "" {
		path := filepath.Join(env.managed("/etc/goose", "/etc/goose"), "config.yaml")
		if s := found.lookAt(path, yamledit.Syntax{}); s != nil {
			order = append(order, found.leaveManaged(s, g.extensions(s, scopeSystem))...)
		}
	}
	if env.first("--no-profile") != "" {
		for _, e := range order {
			e.Off = Disabled
		}
	}
	shadow(order)
	found.leaveOf("servers of recipes are not governed", env.flags("--recipe"))
	return found.result()
}

// extensions adds the extensions in a file to s.
func (goose) extensions(s *Source, scope string) []*Entry {
	for name, value := range s.doc.At([]string{gooseKey}).Members() {
		e := gooseForm.read(value)
		s.add(e, scope, name.Text(), gooseKey, name.Text())
		kind := value.Member("type")
		if what, other := gooseTypes[kind.Text()]; other && kind.Kind() == edit.String {
			e.Ungoverned, e.inert = what, true
		} else if remote := kind.Text() == "sse" || kind.Text() == "streamable_http"; remote {
			e.leaveAddress(kind.Text())
		}
		if value.Member("enabled").IsFalse() {
			e.Off = Disabled
		}
	}
	return s.Entries
}
