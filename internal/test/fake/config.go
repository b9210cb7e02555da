package fake

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v4"
)

// entry is a server in a configuration.
type entry struct {
	Command string            `json:"command" toml:"command"`
	Args    []string          `json:"args" toml:"args"`
	Env     map[string]string `json:"env" toml:"env"`
	Enabled *bool             `json:"-" toml:"enabled"`
}

// extension is a server in Goose's configuration.
type extension struct {
	Type    string            `yaml:"type"`
	Enabled bool              `yaml:"enabled"`
	Command string            `yaml:"cmd"`
	Args    []string          `yaml:"args"`
	Env     map[string]string `yaml:"envs"`
}

// readConfig reads the servers of a configuration as the agent that owns the file would. It
// does not use the packages that rewrite such files.
func readConfig(path string) (map[string]entry, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var servers map[string]entry
	switch filepath.Ext(path) {
	case ".toml":
		servers, err = readCodex(raw)
	case ".yaml":
		servers, err = readYAML(raw)
	default:
		var config struct {
			Servers map[string]entry `json:"mcpServers"`
		}
		err = json.Unmarshal(raw, &config)
		servers = config.Servers
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s names no servers", path)
	}
	return servers, nil
}

func readCodex(raw []byte) (map[string]entry, error) {
	var config struct {
		Servers map[string]entry `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(raw, &config); err != nil {
		return nil, err
	}
	for name, e := range config.Servers {
		if e.Command == "" || e.Enabled != nil && !*e.Enabled {
			delete(config.Servers, name)
		}
	}
	return config.Servers, nil
}

func readYAML(raw []byte) (map[string]entry, error) {
	var config struct {
		Extensions map[string]extension `yaml:"extensions"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return nil, err
	}
	servers := map[string]entry{}
	for name, e := range config.Extensions {
		if e.Enabled && e.Type == "stdio" {
			servers[name] = entry{Command: e.Command, Args: e.Args, Env: e.Env}
		}
	}
	return servers, nil
}
