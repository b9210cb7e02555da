// Package manifest reads what an extension says of itself before it is started:
// its extension.yaml. It is read as strictly as the configuration, since a person
// agrees to what it says: what is not understood would not have been agreed to.
package manifest

import (
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// FileName is the name of a manifest in the folder of its extension.
const FileName = "extension.yaml"

// MaxFile is the longest manifest, in bytes.
const MaxFile = 64 << 10

// Protocol is the version of what is said between the daemon and extensions.
const Protocol = 1

// Manifest is what an extension.yaml says, defaults filled in.
type Manifest struct {
	Schema      int               `yaml:"schema" need:"true" min:"1" max:"1" doc:"version of this format: 1"`
	Name        string            `yaml:"name" need:"true" doc:"lower case letters, digits, - and _"`
	Version     string            `yaml:"version" need:"true" doc:"of the extension, for people"`
	Description string            `yaml:"description" need:"true" doc:"one line"`
	Protocol    int               `yaml:"protocol" need:"true" min:"1" max:"1" doc:"version of what is spoken: 1"`
	Wire        Wire              `yaml:"wire" doc:"json | protobuf"`
	Command     string            `yaml:"command" need:"true" doc:"a path within the folder, as ./scrubber, or a name that is found in PATH; no shell reads it"`
	Args        []string          `yaml:"args"`
	Env         map[string]string `yaml:"env" doc:"variables that are set for it"`
	Pass        []string          `yaml:"pass" one:"true" doc:"names of variables that it gets from the daemon's environment"`
	Permissions []Permission      `yaml:"permissions" one:"true"`
	Hooks       Hooks             `yaml:"hooks" doc:"the calls that it sees"`
	Restart     Restart           `yaml:"restart" doc:"how often it is started again when it has ended"`
	Config      map[string]string `yaml:"config" doc:"defaults of its own configuration"`
	Order       int               `yaml:"order" doc:"hooks are asked in rising order, then by name"`
}

// Defaults fills in what holds where nothing is written.
func (m *Manifest) Defaults() {
	m.Wire, m.Order = JSON, 100
	m.Restart.Defaults()
}

// Has reports whether the extension asks for a permission.
func (m *Manifest) Has(p Permission) bool { return slices.Contains(m.Permissions, p) }

// Hooks are the calls that an extension sees.
type Hooks struct {
	Before Hook `yaml:"before" doc:"calls, before they are judged"`
	After  Hook `yaml:"after" doc:"results, before the agent reads them"`
}

// Hook says which calls are shown to an extension: those that match all three.
type Hook struct {
	Wanted  bool          `yaml:"-"` // it was written
	Servers []config.Glob `yaml:"servers" one:"true" doc:"server ids or globs; left out, all"`
	Tools   []config.Glob `yaml:"tools" one:"true" doc:"names of tools or prompts, URIs of resources, or globs; left out, all"`
	Methods []config.Glob `yaml:"methods" one:"true" doc:"methods or globs; left out, tools/call"`
	OnError OnError       `yaml:"on_error" doc:"block | continue: what becomes of a call that it does not judge"`
}

// Defaults fills in what holds where nothing is written.
func (h *Hook) Defaults() {
	all, _ := config.NewGlob("*")            // it is one
	calls, _ := config.NewGlob("tools/call") // likewise
	*h = Hook{Wanted: true, Servers: []config.Glob{all}, Tools: []config.Glob{all}, Methods: []config.Glob{calls}, OnError: Block}
}

// Matches reports whether a call is one of those. It allocates nothing.
func (h *Hook) Matches(server, method, subject string) bool {
	return h.Wanted && config.MatchAny(h.Methods, method) && config.MatchAny(h.Servers, server) && config.MatchAny(h.Tools, subject)
}

// Restart says how often a program that has ended is started again.
type Restart struct {
	Attempts int           `yaml:"attempts" min:"1" max:"100" doc:"how often in a row; a minute without an end gives all of them back"`
	First    time.Duration `yaml:"first" min:"10ms" max:"1h" doc:"the wait before the first, which doubles"`
	Most     time.Duration `yaml:"most" min:"10ms" max:"1h" doc:"the longest wait"`
}

// Defaults fills in what holds where nothing is written.
func (r *Restart) Defaults() {
	*r = Restart{Attempts: 3, First: 250 * time.Millisecond, Most: 30 * time.Second}
}

// Wire is how an extension speaks.
type Wire string

const (
	JSON     Wire = "json"     // JSON-RPC 2.0, each message behind a Content-Length header
	Protobuf Wire = "protobuf" // protobuf messages, each behind its length in four bytes
)

// Words lists them.
func (Wire) Words() []string { return []string{string(JSON), string(Protobuf)} }

// OnError is what becomes of a call that an extension was to see and did not judge.
type OnError string

const (
	Block    OnError = "block"
	Continue OnError = "continue"
)

// Words lists them.
func (OnError) Words() []string { return []string{string(Block), string(Continue)} }

// Permission is something that an extension may do only where its manifest says so.
type Permission string

const (
	HooksBefore     Permission = "hooks.before"
	HooksAfter      Permission = "hooks.after"
	Tools           Permission = "tools"
	Providers       Permission = "providers"
	Commands        Permission = "commands"
	MemoryRead      Permission = "memory.read"
	MemoryWrite     Permission = "memory.write"
	ConfigWrite     Permission = "config.write"
	ConfigSubscribe Permission = "config.subscribe"
)

var permissions = []Permission{
	HooksBefore, HooksAfter, Tools, Providers, Commands, MemoryRead, MemoryWrite, ConfigWrite, ConfigSubscribe,
}

// Words lists them.
func (Permission) Words() []string {
	words := make([]string, len(permissions))
	for i, p := range permissions {
		words[i] = string(p)
	}
	return words
}

// Known reports whether there is such a permission.
func (p Permission) Known() bool { return slices.Contains(permissions, p) }
