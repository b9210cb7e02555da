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
	Profile    Profile              `yaml:"profile" doc:"the loosest profile that a tg-shim may request"`
	Sources    []Source             `yaml:"sources" doc:"what is known of servers; the first with a matching id applies"`
	Governance Governance           `yaml:"governance" doc:"the rules; if left out, the built-in default applies"`
	Approval   map[string]*Workflow `yaml:"approval" doc:"workflows: who is asked, and how"`
	Cedar      Cedar                `yaml:"cedar" doc:"Cedar policies"`
	Audit      Audit                `yaml:"audit" doc:"the audit log"`
	Pins       Pins                 `yaml:"pins" doc:"what to do when a tool's definition changes"`
	Unknown    Unknown              `yaml:"unknown" doc:"methods and revisions that ThoughtGate does not know; a rule may forward a method"`
	Shim       Shim                 `yaml:"shim" doc:"settings of tg-shim"`
	Limits     Limits               `yaml:"limits" doc:"how much may wait and run"`
	Sampling   Sampling             `yaml:"sampling" doc:"who answers when a server asks the agent's model"`
	Metrics    Metrics              `yaml:"metrics" doc:"metrics of the daemon"`
	Telemetry  Telemetry            `yaml:"telemetry" doc:"traces"`
	Agents     map[string]*Agent    `yaml:"agents" doc:"headless agents for tgctl run, by name"`
	FailOn     []FailOn             `yaml:"fail_on" one:"true" doc:"ungoverned: tgctl wrap starts no agent that has a server which it can't govern"`
	Hooks      map[string]*Hook     `yaml:"hooks" doc:"agents that run hooks before they use tools of their own, by type"`
	Fleet      Fleet                `yaml:"fleet" doc:"questions of other machines of the fleet"`

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
	Command          Glob   `yaml:"command" doc:"glob over the resolved command line: binds the id to a program"`
	Kind             Kind   `yaml:"kind"` // the protocol, not the kind of program or transport
	Enabled          bool   `yaml:"enabled" doc:"false: every call is denied, lists are empty"`
	Expose           Expose `yaml:"expose" doc:"what an agent may see of it"`
	Shared           bool   `yaml:"shared" doc:"true: one process in the daemon for all sessions"`
	TrustAnnotations bool   `yaml:"trust_annotations" doc:"true: a request to a server behind an address that may have been lost is sent again if the tool's annotations say that this changes nothing"`
	CAFile           string `yaml:"ca_file" doc:"certificates in PEM form that are accepted besides the system's; of a server behind an address"`
	CertFile         string `yaml:"cert_file" doc:"client certificate in PEM form for such a server"`
	KeyFile          string `yaml:"key_file" doc:"its key; if left out, it is in cert_file"`
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
	Defaults Defaults `yaml:"defaults" doc:"what applies where no rule matches"`
	Rules    []Rule   `yaml:"rules" doc:"rules; the first that matches applies"`
}

// Defaults specifies what to do with what no rule matches.
type Defaults struct {
	Action Action `yaml:"action" doc:"for calls of agents"`
	Asks   Action `yaml:"asks" doc:"for sampling and URL elicitation that no rule names"`
}

// Rule specifies what to do with the calls that match all conditions written in it. Package policy
// evaluates each of them: see docs/development.md before adding one.
type Rule struct {
	Place       Place    `yaml:"-"`
	Match       Glob     `yaml:"match" doc:"glob over tool name, prompt name or resource URI; optional with when"`
	When        []Fact   `yaml:"when" one:"true" doc:"facts, any of which must hold"`
	Source      []Glob   `yaml:"source" one:"true" doc:"server ids or globs"`
	Agent       []Glob   `yaml:"agent" one:"true" doc:"agent types or globs"`
	Method      []Glob   `yaml:"method" one:"true" doc:"methods or globs; if left out, any that acts"`
	Action      Action   `yaml:"action" need:"true"`
	Approval    string   `yaml:"approval" doc:"workflow; optional if there is only one"`
	AnswerBy    AnswerBy `yaml:"answer_by" doc:"agent | provider: who answers a server that asks the agent's model; if left out, see sampling.when"`
	Undo        bool     `yaml:"undo" doc:"true: the files of a work tree that an approved call of the agent's own tools destroys are copied first, for tgctl undo"`
	PolicyID    string   `yaml:"policy_id" doc:"context.policy_id in Cedar"`
	Description string   `yaml:"description" doc:"shown to the approver; may contain {detail}, {place}, {by}, {member}"`
}

// Workflow specifies whom to ask, and how. A field that is added here or to Destination changes the
// digest of every workflow, and voids all grants: see docs/development.md.
type Workflow struct {
	Place              Place         `yaml:"-"`
	Destination        Destination   `yaml:"destination" doc:"where the question appears"`
	Timeout            time.Duration `yaml:"timeout" min:"5s" id:"V-015" doc:"how long a question waits for an answer"`
	Require            Require       `yaml:"require" doc:"any | presence (passphrase or TOTP); if left out, presence for calls of high risk if it is set up"`
	RedactFields       []string      `yaml:"redact_fields" doc:"paths into arguments, neither shown nor recorded"`
	Validity           time.Duration `yaml:"validity" min:"5s" doc:"how long an approval of a parked call waits for the repeated call"`
	Surfaces           []Surface     `yaml:"surfaces" one:"true" doc:"where an approval may come from"`
	RequireInteraction bool          `yaml:"require_interaction" doc:"true: mark the tool, so that agents that support the mark ask too"`
}

func (w *Workflow) defaults() {
	w.Destination.Type, w.Timeout, w.Validity = "local", 10*time.Minute, 10*time.Minute
}

// Fleet specifies how the people of this machine are asked the questions of other machines.
type Fleet struct {
	Approval string `yaml:"approval" doc:"workflow whose require and surfaces hold for the questions of other machines; if left out, terminal and script, with presence if it is set up"`
}

// Destination specifies where a question appears.
type Destination struct {
	Type        DestinationType `yaml:"type" need:"true" doc:"local: every local surface | slack"`
	Channel     string          `yaml:"channel" doc:"slack: the channel's id or name"`
	BotTokenEnv string          `yaml:"bot_token_env" doc:"slack: variable or credential that holds the bot token; if left out, SLACK_BOT_TOKEN"`
	AppTokenEnv string          `yaml:"app_token_env" doc:"slack: variable or credential that holds the app-level token; if left out, SLACK_APP_TOKEN"`
	Mention     []string        `yaml:"mention" one:"true" doc:"slack: whom to mention: ids of users or user groups, here, channel, everyone"`
	Approvers   []string        `yaml:"approvers" one:"true" doc:"slack: user ids of the approvers"`
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
	MaxSize   Size          `yaml:"max_size" min:"1MiB" doc:"size limit; records younger than 7d are never dropped: production denies calls instead"`
	Values    Values        `yaml:"values" doc:"none (HMAC only) | redacted | full"`
	Heads     string        `yaml:"heads" doc:"a file elsewhere that gets the heads of the log"`
}

// Pins specifies what happens when the definition of a tool differs from the accepted one.
type Pins struct {
	Mode PinMode `yaml:"mode" doc:"hold | warn | off"`
}

// Unknown specifies what happens to methods and revisions outside the tables. For replaces empty
// members by those of the profile.
type Unknown struct {
	Requests      UnknownRequests      `yaml:"requests" doc:"refuse | forward; if left out, refuse in production and forward in development"`
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
	Reattach   time.Duration `yaml:"reattach" min:"0s" max:"10m" doc:"how long to try to reach a daemon that has ended"`
	Stderr     Stderr        `yaml:"stderr" doc:"escaped | raw"`
	MaxMessage Size          `yaml:"max_message" min:"4KiB" max:"10MiB" doc:"maximum length of a line"`
}

// Limits bounds how much may wait for people, how much may run, and how long a server may leave a
// request unanswered.
type Limits struct {
	PendingPerServer int  `yaml:"pending_per_server" min:"1" max:"65536" doc:"maximum number of waiting questions for a server"`
	Pending          int  `yaml:"pending" min:"1" max:"65536" doc:"maximum number of waiting questions in all"`
	PendingBytes     Size `yaml:"pending_bytes" min:"16MiB" max:"16GiB" doc:"maximum size of the calls of all waiting questions"`
	Runs             int  `yaml:"runs" min:"1" max:"1024" doc:"maximum number of headless agents at once"`
	Sessions         int  `yaml:"sessions" min:"1" max:"800" doc:"maximum number of servers attached at once"`

	Orphan time.Duration `yaml:"orphan" min:"1s" max:"1d" doc:"after how long an unanswered request is recorded"`
}

// Metrics specifies where metrics are written in addition to the control socket.
type Metrics struct {
	Textfile string        `yaml:"textfile" doc:"a file for node_exporter, named *.prom, relative to this file"`
	Interval time.Duration `yaml:"interval" min:"1s" max:"1h" doc:"how often it is written"`
}

// Telemetry specifies where traces are sent.
type Telemetry struct {
	Enabled  bool              `yaml:"enabled" doc:"true: send a trace of each judged call"`
	OTLP     OTLP              `yaml:"otlp"`
	Sampling Sampled           `yaml:"sampling"`
	Resource map[string]string `yaml:"resource" doc:"attributes of every trace"`
}

// OTLP describes the collector that receives traces.
type OTLP struct {
	Endpoint string            `yaml:"endpoint" doc:"https URL, or http to this machine"`
	Protocol string            `yaml:"protocol" doc:"http/protobuf"`
	Headers  map[string]string `yaml:"headers" doc:"headers of every export"`
	// HeaderFiles are read when the configuration is applied.
	HeaderFiles map[string]string `yaml:"header_files" doc:"headers whose values are in files of yours or, with credential:NAME, in a credential from systemd"`
}

// Sampled specifies which share of the successful calls is traced.
type Sampled struct {
	SuccessSampleRate float64 `yaml:"success_sample_rate" min:"0" max:"1" id:"V-TEL-001" doc:"0 to 1; failed calls are always sent"`
}
