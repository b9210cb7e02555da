// Package manifest reads the manifest of an extension, its extension.yaml. It is as strict as
// the configuration, since a person agrees to what the manifest says: nobody can have agreed to
// what ThoughtGate does not understand.
package manifest

import (
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// FileName is the name of a manifest in the folder of its extension.
const FileName = "extension.yaml"

// MaxFile is the maximum size of a manifest, in bytes.
const MaxFile = 64 << 10

// Protocol is the version of the protocol between the daemon and extensions.
const Protocol = 1

// Manifest is a parsed extension.yaml, defaults filled in.
type Manifest struct {
	Schema      int               `yaml:"schema" need:"true" min:"1" max:"1" doc:"version of this format: 1"`
	Name        string            `yaml:"name" need:"true" doc:"lower-case letters, digits, - and _"`
	Version     string            `yaml:"version" need:"true" doc:"version of the extension, for people"`
	Description string            `yaml:"description" need:"true" doc:"one line"`
	Protocol    int               `yaml:"protocol" need:"true" min:"1" max:"1" doc:"version of the protocol: 1"`
	Wire        Wire              `yaml:"wire" doc:"json | protobuf"`
	Command     string            `yaml:"command" need:"true" doc:"a path within the folder, as ./scrubber, or a name that is found in PATH; not run by a shell"`
	Args        []string          `yaml:"args"`
	Env         map[string]string `yaml:"env" doc:"variables to set for it"`
	Pass        []string          `yaml:"pass" one:"true" doc:"names of variables that it inherits from the daemon"`
	Permissions []Permission      `yaml:"permissions" one:"true"`
	Hooks       Hooks             `yaml:"hooks" doc:"calls and results that it sees"`
	Restart     Restart           `yaml:"restart" doc:"how often it is restarted after it ended"`
	Config      map[string]string `yaml:"config" doc:"defaults of its own configuration"`
	Order       int               `yaml:"order" doc:"hooks are called by ascending order, then by name"`
}

// Defaults sets the values of absent keys.
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

// Hook selects the calls that are shown to an extension: those that match all three lists.
type Hook struct {
	Wanted  bool          `yaml:"-"` // present in the manifest
	Servers []config.Glob `yaml:"servers" one:"true" doc:"server ids or globs; if left out, all"`
	Tools   []config.Glob `yaml:"tools" one:"true" doc:"names of tools or prompts, URIs of resources, or globs; if left out, all"`
	Methods []config.Glob `yaml:"methods" one:"true" doc:"methods or globs; if left out, tools/call"`
	OnError OnError       `yaml:"on_error" doc:"block | continue: what to do with a call that it does not judge"`
}

// Defaults sets the values of absent keys.
func (h *Hook) Defaults() {
	all, _ := config.NewGlob("*")            // always valid
	calls, _ := config.NewGlob("tools/call") // always valid
	*h = Hook{Wanted: true, Servers: []config.Glob{all}, Tools: []config.Glob{all}, Methods: []config.Glob{calls}, OnError: Block}
}

// Matches reports whether the hook selects a call. It does not allocate.
func (h *Hook) Matches(server, method, subject string) bool {
	return h.Wanted && config.MatchAny(h.Methods, method) && config.MatchAny(h.Servers, server) && config.MatchAny(h.Tools, subject)
}

// Restart says how often an extension that has ended is started again.
type Restart struct {
	Attempts int           `yaml:"attempts" min:"1" max:"100" doc:"restarts in a row; the count starts again after a minute without an end"`
	First    time.Duration `yaml:"first" min:"10ms" max:"1h" doc:"the delay before the first restart; it doubles each time"`
	Most     time.Duration `yaml:"most" min:"10ms" max:"1h" doc:"the maximum delay"`
}

// Defaults sets the values of absent keys.
func (r *Restart) Defaults() {
	*r = Restart{Attempts: 3, First: 250 * time.Millisecond, Most: 30 * time.Second}
}

// Wire is the wire protocol of an extension.
type Wire string

const (
	JSON     Wire = "json"     // JSON-RPC 2.0, each message after a Content-Length header
	Protobuf Wire = "protobuf" // protobuf messages, each after its length in four bytes
)

// Words returns the valid values.
func (Wire) Words() []string { return []string{string(JSON), string(Protobuf)} }

// OnError says what happens to a call that an extension was to see and did not judge.
type OnError string

const (
	Block    OnError = "block"
	Continue OnError = "continue"
)

// Words returns the valid values.
func (OnError) Words() []string { return []string{string(Block), string(Continue)} }

// Permission is something that an extension may do only if its manifest names it.
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

// Words returns the valid values.
func (Permission) Words() []string {
	words := make([]string, len(permissions))
	for i, p := range permissions {
		words[i] = string(p)
	}
	return words
}

// Known reports whether p is a valid permission.
func (p Permission) Known() bool { return slices.Contains(permissions, p) }
