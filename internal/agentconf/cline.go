package agentconf

import "path/filepath"

// cline knows the one file of Cline, which its program for the terminal and its
// extension for editors share.
//
// Cline writes that file itself: switches, approvals of tools, the state of a
// login. It holds a folder beside it as a lock meanwhile, which we do as well.
type cline struct{}

const (
	clineFile  = "cline_mcp_settings.json"
	clineInner = "transport" // the part of an entry that may hold what is started
)

func (cline) Name() string { return "cline" }

func (cline) Files(env Env) []string {
	path := filepath.Join(env.Home, ".cline", "data", "settings", clineFile)
	if dir := env.variable("CLINE_DIR"); dir != "" {
		path = filepath.Join(absolute(dir, env.Cwd), "data", "settings", clineFile)
	}
	if dir := env.variable("CLINE_DATA_DIR"); dir != "" {
		path = filepath.Join(absolute(dir, env.Cwd), "settings", clineFile)
	}
	if file := env.variable("CLINE_MCP_SETTINGS_PATH"); file != "" {
		path = absolute(file, env.Cwd)
	}
	if env.Config != "" {
		path = env.Config
	}
	return []string{path}
}

func (c cline) Find(env Env) (*Found, error) {
	found := &Found{}
	path := c.Files(env)[0]
	s, err := load(path, strict)
	if s == nil || err != nil {
		return found, err
	}
	s.vars = variables{}
	s.AgentLocks = lockFolders(path, s.file.path)
	found.Sources = append(found.Sources, s)
	for _, e := range s.addServers(scopeUser, []string{"mcpServers"}) {
		n := s.doc.At(e.Path)
		// What is started, or reached, stands in the entry or one level below it.
		if at := n.Member(clineInner); at.Exists() {
			inner := readEntry(at)
			e.Path, e.inner = append(e.Path, clineInner), true
			e.Command, e.Args, e.Ungoverned = inner.Command, inner.Args, inner.Ungoverned
		} else if kind := n.Member("transportType"); kind.Exists() && kind.Text() != "stdio" {
			e.Ungoverned = "a remote server (" + kind.Text() + ")"
		}
		if n.Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	return found, nil
}
