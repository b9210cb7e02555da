package agentconf

import "path/filepath"

// cline finds the servers in the one file of Cline, which its terminal program and its editor
// extension share.
//
// Cline writes switches, approvals of tools and login states to this file. Meanwhile it holds a
// folder beside the file as a lock, and so does ThoughtGate.
type cline struct{}

const (
	clineFile  = "cline_mcp_settings.json"
	clineInner = "transport" // member of an entry that may hold what is started
)

func (cline) Name() string { return "cline" }

func (cline) Files(env Env) []string {
	data := env.path("CLINE_DATA_DIR", filepath.Join(env.path("CLINE_DIR", filepath.Join(env.Home, ".cline")), "data"))
	return env.files(env.path("CLINE_MCP_SETTINGS_PATH", filepath.Join(data, "settings", clineFile)))
}

func (c cline) Find(env Env) (*Found, error) {
	found := &Found{}
	path := c.Files(env)[0]
	s := found.load(path, strict, variables{})
	if s == nil {
		return found.result()
	}
	s.AgentLocks = lockFolders(path, s.file.path)
	for _, e := range s.addServers(scopeUser, []string{"mcpServers"}) {
		n := e.node()
		// The command or URL is in the entry or one level below.
		if at := n.Member(clineInner); at.Exists() {
			e.useMember(usualForm, clineInner, at)
		} else if kind := n.Member("transportType"); kind.Exists() && kind.Text() != "stdio" {
			e.leaveAddress(kind.Text())
		}
		if n.Member("disabled").IsTrue() {
			e.Off = Disabled
		}
	}
	return found, nil
}
