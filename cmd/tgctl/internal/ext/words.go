package ext

import (
	"cmp"
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// This file describes in plain words what the manifest of an extension allows.

// permissionWords describe what each permission lets an extension do.
var permissionWords = map[string]display.Safe{
	"hooks.before":     "see calls before they are judged, change their arguments, deny them",
	"hooks.after":      "see results before the agent does, change them, withhold them",
	"tools":            "offer tools to agents",
	"providers":        "complete prompts for servers that ask",
	"commands":         "offer commands that you can run: tgctl ext run",
	"memory.read":      "read its own memory",
	"memory.write":     "write its own memory, which persists across restarts",
	"config.write":     "change its own configuration",
	"config.subscribe": "be notified when its configuration changes",
}

// permissionWord describes a permission in plain words.
func permissionWord(permission string) display.Safe {
	if words := permissionWords[permission]; words != "" {
		return words
	}
	return display.Name(permission)
}

// hookWord describes which calls a hook sees.
func hookWord(h *pb.ExtensionHook) display.Safe {
	return "every " + ui.Choose(only(h.GetMethods(), "tools/call"), "call", ui.NameList(h.GetMethods())) +
		ui.Choose(only(h.GetTools(), "*"), "", " of "+ui.NameList(h.GetTools())) +
		", on " + ui.Choose(only(h.GetServers(), "*"), "any server", ui.NameList(h.GetServers()))
}

// failWord describes what happens to calls when the hook fails.
func failWord(h *pb.ExtensionHook, results bool) display.Safe {
	return "when it fails, they " + ui.Choose(h.GetOpen(), "ARE FORWARDED WITHOUT IT", ui.Choose(results, "are withheld", "are denied"))
}

func only(globs []string, glob string) bool { return len(globs) == 1 && globs[0] == glob }

// manifestWords adds the contents of a manifest to a sheet, in plain words.
func manifestWords(s *ui.Sheet, m *pb.ExtensionManifest) {
	s.Add("runs", ui.CommandLine(m.GetCommand()))
	s.Add("may", cmp.Or(ui.Join(ui.Map(m.GetPermissions(), permissionWord), "\n"), "nothing"))
	if h := m.GetBefore(); h != nil {
		s.Add("calls", "sees "+hookWord(h)+";\n"+failWord(h, false))
	}
	if h := m.GetAfter(); h != nil {
		s.Add("results", "sees results of "+hookWord(h)+";\n"+failWord(h, true))
	}
	s.Add("gets", ui.Choose(len(m.GetPass()) > 0, ui.NameList(m.GetPass())+" from the daemon's environment", ""))
	s.Add("with", ui.Join(ui.Map(slices.Sorted(maps.Keys(m.GetEnv())), func(name string) display.Safe {
		return display.Name(name) + "=" + display.Text(m.GetEnv()[name])
	}), "\n"))
}
