package agentconf

import "fmt"

// custom is any agent that is told by the person: one file, which lists its
// servers in the usual form under one of the usual names. The file's ending says
// whether it is JSON, TOML or YAML.
type custom struct{}

// customKeys are the names that lists of servers go by.
var customKeys = []string{"mcpServers", "servers", "context_servers", "mcp_servers"}

func (custom) Name() string { return "custom" }

func (custom) Files(env Env) []string {
	if env.Config == "" {
		return nil
	}
	return []string{env.Config}
}

func (custom) Find(env Env) (*Found, error) {
	if env.Config == "" {
		return nil, fmt.Errorf("the agent type custom needs the file to rewrite: --config-path FILE")
	}
	found := &Found{}
	s, err := load(env.Config, syntaxOf(env.Config))
	if s == nil || err != nil {
		return found, err
	}
	found.Sources = append(found.Sources, s)
	for _, key := range customKeys {
		for _, e := range s.addServers("file", []string{key}) {
			n := s.doc.At(e.Path)
			if n.Member("disabled").IsTrue() || n.Member("enabled").IsFalse() {
				e.Off = Disabled
			}
		}
	}
	return found, nil
}
