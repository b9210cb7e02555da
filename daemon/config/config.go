package config

import "time"

// Config is the content of a thoughtgate.yaml with defaults applied. After Load it is immutable
// and may be read concurrently. It must not be copied.
type Config struct {
	// Path is the absolute path of the file; empty for the built-in default.
	Path string `yaml:"-"`
	// FileDigest is the hex SHA-256 of the file, as sha256sum prints it.
	FileDigest string `yaml:"-"`
	// Digest is FileDigest unless the file refers to environment variables; then it also covers
	// their values. Equal digests mean equal settings.
	Digest string `yaml:"-"`

	JSONSchema string               `yaml:"$schema" doc:"where an editor finds the JSON Schema of this file"`
	Schema     int                  `yaml:"schema" need:"true" min:"1" max:"1" doc:"version of this format: 1"`
	Profile    Profile              `yaml:"profile" doc:"the loosest a shim may run under"`
	Sources    []Source             `yaml:"sources" doc:"what is known of servers; the first whose id matches counts"`
	Governance Governance           `yaml:"governance" doc:"the rules; left out, those of the built-in default hold"`
	Approval   map[string]*Workflow `yaml:"approval" doc:"workflows: whom to ask, and how"`
	Cedar      Cedar                `yaml:"cedar" doc:"Cedar policies"`
	Audit      Audit                `yaml:"audit" doc:"the audit log"`
	Pins       Pins                 `yaml:"pins" doc:"what happens when a tool's definition changes"`
	Unknown    Unknown              `yaml:"unknown" doc:"methods and revisions outside the tables; a rule may let a method through"`
	Shim       Shim                 `yaml:"shim" doc:"what shims are told"`
	Limits     Limits               `yaml:"limits" doc:"how much may wait, and run"`
	Sampling   Sampling             `yaml:"sampling" doc:"who answers when a server asks the agent's model"`
	Metrics    Metrics              `yaml:"metrics" doc:"metrics, for those who watch the daemon"`
	Telemetry  Telemetry            `yaml:"telemetry" doc:"traces"`
	Agents     map[string]*Agent    `yaml:"agents" doc:"agents that tgctl run starts headless, by their names"`

	marks map[any]Place // by pointer to the field
	text  []byte
}

// Text returns the text of the file. The caller must not modify it.
func (c *Config) Text() []byte { return c.text }

// Place returns where the value that field points to was written, or the zero Place if a default
// applies. field must be a pointer into c.
func (c *Config) Place(field any) Place { return c.marks[field] }

// Source holds the settings of one server.
type Source struct {
	Place            Place  `yaml:"-"`
	ID               Glob   `yaml:"id" need:"true" doc:"server id, or a glob over ids"`
	Command          Glob   `yaml:"command" doc:"glob over the resolved command line: ties the id to a program"`
	Kind             Kind   `yaml:"kind"`
	Enabled          bool   `yaml:"enabled" doc:"false: every call is denied, lists are empty"`
	Expose           Expose `yaml:"expose" doc:"what of it an agent may know"`
	Shared           bool   `yaml:"shared" doc:"true: one process in the daemon for all sessions"`
	TrustAnnotations bool   `yaml:"trust_annotations" doc:"true: readOnlyHint may loosen; otherwise hints only tighten"`
}

func (s *Source) defaults() {
	s.Kind, s.Enabled, s.Expose.Mode = "mcp", true, ExposeAll
}

// Expose specifies what of a server an agent may see. An allowlist exposes only what it lists:
// without a list for a kind it exposes nothing of that kind.
type Expose struct {
	Mode      ExposeMode `yaml:"mode" doc:"all | allowlist | blocklist"`
	Tools     []Glob     `yaml:"tools" doc:"globs over tool names"`
	Resources []Glob     `yaml:"resources" doc:"globs over resource URIs and templates"`
	Prompts   []Glob     `yaml:"prompts" doc:"globs over prompt names"`
}

// Governance holds the rules and the defaults for what no rule matches.
type Governance struct {
	Defaults Defaults `yaml:"defaults" doc:"what holds where no rule matches"`
	Rules    []Rule   `yaml:"rules" doc:"the first that matches counts"`
}

// Defaults specifies what to do with what no rule matches.
type Defaults struct {
	Action Action `yaml:"action" doc:"for what agents ask of servers"`
	Asks   Action `yaml:"asks" doc:"for sampling and url elicitation that no rule names"`
}

// Rule specifies what to do with the calls that match all conditions written in it.
type Rule struct {
	Place       Place    `yaml:"-"`
	Match       Glob     `yaml:"match" doc:"glob over tool name, prompt name or resource URI; may be left out beside when"`
	When        []Fact   `yaml:"when" one:"true" doc:"facts, of which any must hold"`
	Source      []Glob   `yaml:"source" one:"true" doc:"server ids or globs"`
	Agent       []Glob   `yaml:"agent" one:"true" doc:"agent types or globs"`
	Method      []Glob   `yaml:"method" one:"true" doc:"methods or globs; left out, any that acts"`
	Action      Action   `yaml:"action" need:"true"`
	Approval    string   `yaml:"approval" doc:"workflow; may be left out where there is one"`
	AnswerBy    AnswerBy `yaml:"answer_by" doc:"agent | provider: who answers a server that asks the agent's model; left out, as sampling.when says"`
	PolicyID    string   `yaml:"policy_id" doc:"reaches Cedar as context.policy_id"`
	Description string   `yaml:"description" doc:"shown to the person asked; may name {place}, {by}, {member}"`
}

// Workflow specifies whom to ask, and how.
type Workflow struct {
	Place              Place         `yaml:"-"`
	Destination        Destination   `yaml:"destination" doc:"where the question appears"`
	Timeout            time.Duration `yaml:"timeout" min:"5s" id:"V-015" doc:"how long a question stays open"`
	Require            Require       `yaml:"require" doc:"any | presence (passphrase or TOTP); left out, presence for calls of high risk once it is set up"`
	RedactFields       []string      `yaml:"redact_fields" doc:"paths into arguments that are neither shown nor recorded"`
	Validity           time.Duration `yaml:"validity" min:"5s" doc:"how long a yes to a parked question waits for the repeated call"`
	Surfaces           []Surface     `yaml:"surfaces" one:"true" doc:"where a yes may come from"`
	RequireInteraction bool          `yaml:"require_interaction" doc:"true: mark the tool so that agents which know the mark prompt too"`
}

func (w *Workflow) defaults() {
	w.Destination.Type, w.Timeout, w.Validity = "local", 10*time.Minute, 10*time.Minute
}

// Destination specifies where a question appears.
type Destination struct {
	Type        DestinationType `yaml:"type" need:"true" doc:"local: every local surface | slack"`
	Channel     string          `yaml:"channel" doc:"slack: the channel's id or name"`
	BotTokenEnv string          `yaml:"bot_token_env" doc:"slack: variable or credential that holds the bot token; left out, SLACK_BOT_TOKEN"`
	AppTokenEnv string          `yaml:"app_token_env" doc:"slack: variable or credential that holds the app-level token; left out, SLACK_APP_TOKEN"`
	Mention     []string        `yaml:"mention" one:"true" doc:"slack: who is mentioned: ids of users or user groups, here, channel, everyone"`
	Approvers   []string        `yaml:"approvers" one:"true" doc:"slack: user ids whose answer counts"`
}

// Cedar specifies where the policies are.
type Cedar struct {
	Policies []string `yaml:"policies" one:"true" doc:"files or globs, relative to this file"`
	Schema   string   `yaml:"schema" doc:"generated, or the path of a Cedar schema"`
}

// SchemaGenerated is the value of Cedar.Schema for a schema derived from the tool definitions of
// the servers.
const SchemaGenerated = "generated"

// Audit holds the settings of the audit log.
type Audit struct {
	Sync      Sync          `yaml:"sync" doc:"never | interval | always"`
	Interval  time.Duration `yaml:"interval" min:"1ms" max:"1m" doc:"for sync: interval"`
	Retention time.Duration `yaml:"retention" min:"1d" doc:"how long records are kept"`
	MaxSize   Size          `yaml:"max_size" min:"1MiB" doc:"never drops what is younger than 7d: production refuses instead"`
	Values    Values        `yaml:"values" doc:"none (HMAC only) | redacted | full"`
	Heads     string        `yaml:"heads" doc:"a file elsewhere to which the heads of the log are added"`
}

// Pins specifies what happens when the definition of a tool differs from the accepted one.
type Pins struct {
	Mode PinMode `yaml:"mode" doc:"hold | warn | off"`
}

// Unknown specifies what happens to methods and revisions outside the tables. For replaces empty
// members by those of the profile.
type Unknown struct {
	Requests      UnknownRequests      `yaml:"requests" doc:"refuse | forward; left out, production refuses and development forwards"`
	Notifications UnknownNotifications `yaml:"notifications" doc:"drop | forward"`
	Revisions     UnknownRequests      `yaml:"revisions" doc:"refuse | forward"`
}

// For returns u with its empty members set to the defaults of p.
func (u Unknown) For(p Profile) Unknown {
	requests, notifications := UnknownRequests("refuse"), UnknownNotifications("drop")
	if p == Development {
		requests, notifications = "forward", "forward"
	}
	if u.Requests == "" {
		u.Requests = requests
	}
	if u.Notifications == "" {
		u.Notifications = notifications
	}
	if u.Revisions == "" {
		u.Revisions = requests
	}
	return u
}

// Shim holds the settings that shims receive when they attach.
type Shim struct {
	Reattach   time.Duration `yaml:"reattach" min:"0s" max:"10m" doc:"how long to look for a daemon that has gone, when there is something to tell it"`
	Stderr     Stderr        `yaml:"stderr" doc:"escaped | raw"`
	MaxMessage Size          `yaml:"max_message" min:"4KiB" max:"10MiB" doc:"one line, at most"`
}

// Limits bounds how much may wait for people, how much may run, and how long a server may leave a
// request unanswered.
type Limits struct {
	PendingPerServer int  `yaml:"pending_per_server" min:"1" max:"65536" doc:"questions a server, at most"`
	Pending          int  `yaml:"pending" min:"1" max:"65536" doc:"questions in all, at most"`
	PendingBytes     Size `yaml:"pending_bytes" min:"16MiB" max:"16GiB" doc:"that the calls of all questions hold, at most"`
	Runs             int  `yaml:"runs" min:"1" max:"1024" doc:"headless agents at once, at most"`
	Sessions         int  `yaml:"sessions" min:"1" max:"800" doc:"servers attached at once, at most"`

	Orphan time.Duration `yaml:"orphan" min:"1s" max:"1d" doc:"after how long a request without an answer is on record"`
}

// Metrics specifies where metrics are written in addition to the control socket.
type Metrics struct {
	Textfile string        `yaml:"textfile" doc:"a file named *.prom, relative to this one, that node_exporter reads"`
	Interval time.Duration `yaml:"interval" min:"1s" max:"1h" doc:"how often it is written"`
}

// Telemetry specifies where traces are sent.
type Telemetry struct {
	Enabled  bool              `yaml:"enabled" doc:"true: a trace of each judged call is sent"`
	OTLP     OTLP              `yaml:"otlp"`
	Sampling Sampled           `yaml:"sampling"`
	Resource map[string]string `yaml:"resource" doc:"attributes of every trace"`
}

// OTLP describes the collector that receives traces.
type OTLP struct {
	Endpoint string            `yaml:"endpoint" doc:"https URL, or http to this machine"`
	Protocol string            `yaml:"protocol" doc:"http/protobuf"`
	Headers  map[string]string `yaml:"headers" doc:"sent with every export"`
	// HeaderFiles are read when the configuration is applied.
	HeaderFiles map[string]string `yaml:"header_files" doc:"headers whose values are in files of your own, or with credential:NAME in a credential that systemd provides"`
}

// Sampled specifies which share of the successful calls is traced.
type Sampled struct {
	SuccessSampleRate float64 `yaml:"success_sample_rate" min:"0" max:"1" id:"V-TEL-001" doc:"0 to 1; what failed is always kept"`
}
