package agentconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// custom is any other agent. The person names its one file, which lists servers in the usual
// form under one of the usual names; see customLists. The file name extension says whether it
// is JSON, TOML or YAML.
type custom struct{}

// customKeys are the usual names of lists of servers.
var customKeys = []string{"mcpServers", "servers", "context_servers", "mcp_servers"}

// customLists returns the paths of the lists of servers in a file. A list is a member with a
// usual name, or with a name that ends in one after a dot ("amp.mcpServers"), at the top level
// or one level below.
func customLists(root edit.Node) [][]string {
	var lists [][]string
	for _, key := range customKeys {
		if root.Member(key).Exists() {
			lists = append(lists, []string{key})
		}
	}
	for name, value := range root.Members() {
		if slices.Contains(customKeys, name.Text()) {
			continue // its members are servers
		}
		for _, key := range customKeys {
			if strings.HasSuffix(name.Text(), "."+key) {
				lists = append(lists, []string{name.Text()})
			}
			if value.Member(key).Exists() {
				lists = append(lists, []string{name.Text(), key})
			}
		}
	}
	return lists
}

func (custom) Name() string { return "custom" }

func (custom) Files(env Env) []string { return env.files() }

func (custom) Find(env Env) (*Found, error) {
	if env.Config == "" {
		return nil, fmt.Errorf("the agent type custom needs --config-path FILE, the file to rewrite")
	}
	found := &Found{}
	s := found.load(env.Config, syntaxOf(env.Config), shellVariables)
	if s == nil {
		return found.result()
	}
	for _, list := range customLists(s.doc.Root()) {
		for _, e := range s.addServers("file", list) {
			n := e.node()
			if n.Member("disabled").IsTrue() || n.Member("enabled").IsFalse() {
				e.Off = Disabled
			}
		}
	}
	return found.result()
}
