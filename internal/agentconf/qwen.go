package agentconf

import (
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// qwen finds the servers of Qwen Code, in the user's settings and the project's. It descends from
// Gemini CLI, and entries have the same form. Those of extensions and of an administrator are not
// found.
type qwen struct{}

func (qwen) Name() string { return "qwen" }

// userFile returns the path of the user's settings.
func (qwen) userFile(env Env) string {
	return env.files(filepath.Join(env.path("QWEN_HOME", filepath.Join(env.Home, ".qwen")), "settings.json"))[0]
}

func (q qwen) Files(env Env) []string {
	files := []string{q.userFile(env)}
	if realPath(env.Cwd) != realPath(env.Home) { // there it is the user's
		files = append(files, filepath.Join(env.Cwd, ".qwen", "settings.json"))
	}
	return env.files(files...)
}

func (q qwen) Find(env Env) (*Found, error) {
	found := &Found{}
	files := q.Files(env)
	user := found.add(files[0], scopeUser, geminiFormat)
	var order []*Entry
	for _, path := range files[1:] {
		order = found.add(path, scopeProject, geminiFormat)
	}
	order = append(order, user...)
	var allowed, excluded []string
	restricted := false
	for _, path := range files { // the project's lists replace the user's
		settings, err := readSettings(path, geminiSyntax)
		if err != nil {
			continue // reported when the servers of the file were read
		}
		if list := settings.Member("mcp").Member("allowed"); list.Kind() == edit.Array {
			allowed, restricted = texts(list), true
		}
		excluded = append(excluded, texts(settings.Member("mcp").Member("excluded"))...)
	}
	for _, e := range order {
		switch {
		case slices.Contains(excluded, e.ID):
			e.Off, e.Because = Disabled, "mcp.excluded names it"
		case restricted && !slices.Contains(allowed, e.ID):
			e.Off, e.Because = Disabled, "mcp.allowed does not name it"
		}
	}
	shadow(order)
	return found.result()
}
