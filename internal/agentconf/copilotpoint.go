package agentconf

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Copilot CLI takes a further file by a flag, and each entry of it in the place
// of the one that has its name in the other files. What it says of itself there,
// that it is switched off for one, it says here as well.

// roaming are the flags with which Copilot CLI works in a folder that only it
// knows.
var roaming = []string{"--acp", "--resume", "-r", "--continue", "--connect", "--worktree", "-w"}

func (copilot) unfaithful(env Env, found *Found) string {
	if len(env.Command) > 1 && !strings.HasPrefix(env.Command[1], "-") {
		return "copilot " + env.Command[1] + " does not heed " + scopeAdditional
	}
	if len(env.flags(scopeAdditional)) > 0 {
		return "the command line has " + scopeAdditional + " already"
	}
	if flag := env.first(roaming); flag != "" {
		return "with " + flag + " it may work in another folder than this one"
	}
	for _, e := range found.order {
		if e.Off == Pending {
			return "this folder is not trusted yet: a flag would start " + e.ID + " without being asked"
		}
	}
	return ""
}

func (copilot) point(_ Env, found *Found, line Line, copyPath string) (*pointed, error) {
	var servers []edit.Member
	for s, e := range found.strongest {
		if e.Ungoverned != "" {
			continue
		}
		text, _, err := rewrite(s.doc, []*Entry{e}, line)
		if err != nil {
			return nil, fmt.Errorf("rewrite %s: %w", s.Path, err)
		}
		doc, err := lenient.Parse(text)
		if err != nil {
			return nil, err
		}
		servers = append(servers, edit.Member{Name: e.ID, Value: plain(doc.At(e.Path))})
	}
	list := edit.Member{Name: "mcpServers", Value: strict.Table(servers)}
	return &pointed{
		args: []string{scopeAdditional, "@" + copyPath},
		copy: append([]byte(strict.Table([]edit.Member{list})), '\n'),
	}, nil
}
