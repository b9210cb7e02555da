package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// checker reports what is well formed but cannot be intended.
type checker struct {
	*Config
	file  string
	found []Diagnostic
}

// reportError reports an error at the place of the value that field points to.
func (c *checker) reportError(field any, id, hint, format string, args ...any) {
	p := c.Place(field)
	if p.File == "" {
		p.File = c.file
	}
	c.found = append(c.found, p.Diagnostic(Error, id, hint, format, args...))
}

func (c *checker) all() {
	c.sources()
	for i := range c.Governance.Rules {
		c.rule(&c.Governance.Rules[i])
	}
	c.checkDefaultWorkflow()
	c.workflows()
	c.paths()
	c.agents()
	c.hooks()
	c.limits()
	c.sampling()
	c.metrics()
	c.telemetry()
	c.fleet()
}

// fleet checks the workflow for the questions of other machines. It can't pass them on.
func (c *checker) fleet() {
	f := &c.Fleet
	if f.Approval == "" {
		return
	}
	c.named(&f.Approval, f.Approval)
	if _, w := c.Workflow(f.Approval); w != nil && slices.Contains(w.Surfaces, SurfaceColleague) {
		c.reportError(&f.Approval, "", "name a workflow without that surface", "the workflow %q accepts answers from colleagues, and a question of another machine is answered on this one", f.Approval)
	}
}

func (c *checker) metrics() {
	if m := &c.Metrics; m.Textfile != "" && !strings.HasSuffix(m.Textfile, ".prom") {
		c.reportError(&m.Textfile, "", "node_exporter reads only *.prom", "the text file %q must end in .prom", m.Textfile)
	}
}

func (c *checker) sources() {
	first := map[string]*Source{}
	for i := range c.Sources {
		s := &c.Sources[i]
		id := s.ID.String()
		if id == "" {
			continue
		}
		if before := first[id]; before != nil {
			c.reportError(&s.ID, "V-001", fmt.Sprintf("it is already in line %d; only the first counts", before.Place.Line), "duplicate source id %q", id)
		} else {
			first[id] = s
		}
		if strings.HasPrefix(id, "_") {
			c.reportError(&s.ID, "V-002", "", "the source id %q begins with _, which is reserved", id)
		}
		if i := strings.IndexFunc(id, func(r rune) bool { return !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) }); i >= 0 || strings.TrimSpace(id) != id || len(id) > 256 {
			c.reportError(&s.ID, "V-016", "", "the source id %q must have at most 256 bytes, no control characters and no blanks around it", id)
		}
		c.expose(&s.Expose)
	}
}

func (c *checker) expose(e *Expose) {
	lists := len(e.Tools) + len(e.Resources) + len(e.Prompts)
	switch {
	case e.Mode == ExposeAll && lists > 0:
		c.reportError(e, "", "write mode: allowlist or mode: blocklist", "the lists have no effect with mode: all")
	case e.Mode != ExposeAll && lists == 0:
		c.reportError(e, "", "list tools, resources or prompts; to disable a server write enabled: false", "the %s is empty", e.Mode)
	}
}

func (c *checker) rule(r *Rule) {
	if r.Action == "" || r.Place.File == builtIn && c.file != builtIn {
		return
	}
	if r.Match.IsZero() && c.Place(&r.Match).Line == 0 {
		if len(r.When) == 0 {
			c.found = append(c.found, r.Place.Diagnostic(Error, "", `to match any name, write match: "*"`, "the rule has neither match nor when"))
		}
		r.Match, _ = NewGlob("*")
	}
	if c.Place(&r.When).Line > 0 && len(r.When) == 0 {
		c.reportError(&r.When, "", "", "the list of facts is empty, so the rule never matches")
	}
	for _, l := range []*[]Glob{&r.Source, &r.Agent, &r.Method} {
		if c.Place(l).Line > 0 && len(*l) == 0 {
			c.reportError(l, "", "", "the list is empty, so the rule never matches")
		}
	}
	c.answerBy(r)
	if r.Undo && r.Action != Approve && r.Action != Policy {
		c.reportError(&r.Undo, "", "", "undo needs a question: action: approve or policy; this rule has action: %s", r.Action)
	}
	if r.PolicyID != "" && r.Action != Policy {
		c.reportError(&r.PolicyID, "V-004", "", "policy_id needs action: policy; this rule has action: %s", r.Action)
	}
	switch {
	case r.Approval == "":
	case r.Action != Approve:
		c.reportError(&r.Approval, "", "", "a workflow needs action: approve; this rule has action: %s", r.Action)
		return
	default:
		c.named(&r.Approval, r.Approval)
		return
	}
	if r.Action == Approve && len(c.Approval) > 1 {
		c.reportError(&r.Action, "V-006b", "add approval: with one of "+strings.Join(keysOf(c.Approval), ", "), "there are %d workflows, and the rule names none", len(c.Approval))
	}
}

// named checks that a workflow with this name exists.
func (c *checker) named(field any, name string) {
	if _, w := c.Workflow(name); w == nil || name == DefaultWorkflow && len(c.Approval) > 0 && c.Approval[name] == nil {
		c.reportError(field, "V-006", suggestion(name, keysOf(c.Approval)), "unknown workflow %q", name)
	}
}

// checkDefaultWorkflow checks that the defaults name one workflow where their action is approve. Defaults that
// are not in the file use the workflow called default, which always exists.
func (c *checker) checkDefaultWorkflow() {
	for _, a := range []*Action{&c.Governance.Defaults.Action, &c.Governance.Defaults.Asks} {
		if *a == Approve && c.Place(a).Line > 0 && len(c.Approval) > 1 && c.Approval[DefaultWorkflow] == nil {
			c.reportError(a, "V-006b", fmt.Sprintf("name one of them %q", DefaultWorkflow), "there are %d workflows, and the defaults name none", len(c.Approval))
		}
	}
}

var workflowName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c *checker) workflows() {
	for _, name := range keysOf(c.Approval) {
		w := c.Approval[name]
		if !workflowName.MatchString(name) {
			c.found = append(c.found, w.Place.Diagnostic(Error, "", "use letters, digits, -, _ and .", "invalid workflow name %q", name))
		}
		c.slack(&w.Destination)
		w.complete()
		for i := range w.RedactFields {
			if f := w.RedactFields[i]; f == "" || strings.Contains("."+f+".", "..") {
				c.reportError(&w.RedactFields[i], "", "write it as auth.token or items.*.secret", "%q is not a path into arguments", f)
			}
		}
	}
}

func (c *checker) paths() {
	for i := range c.Cedar.Policies {
		if c.Cedar.Policies[i] == "" {
			c.reportError(&c.Cedar.Policies[i], "V-013", "", "an empty path")
		}
	}
	if c.Cedar.Schema == "" {
		c.reportError(&c.Cedar.Schema, "V-013", "write generated, or the path of a Cedar schema", "an empty path")
	}
}

func (c *checker) limits() {
	if l := &c.Limits; l.PendingPerServer > l.Pending {
		field := any(&l.PendingPerServer)
		if c.Place(field).Line == 0 {
			field = &l.Pending
		}
		c.reportError(field, "", "", "pending_per_server (%d) must not exceed pending (%d)", l.PendingPerServer, l.Pending)
	}
}

// Names of the variables or credentials that hold the tokens of a Slack app, unless the
// destination names others.
const (
	slackBotToken = "SLACK_BOT_TOKEN"
	slackAppToken = "SLACK_APP_TOKEN"
)

var (
	slackID       = regexp.MustCompile(`^[CGD][A-Z0-9]{2,}$`)
	slackApprover = regexp.MustCompile(`^[UW][A-Z0-9]{2,}$`)
	slackMention  = regexp.MustCompile(`^([UWS][A-Z0-9]{2,}|here|channel|everyone)$`)
	variableName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// slackName is the maximum length of a channel name, in characters.
const slackName = 80

// isSlackChannel reports whether s can be the id of a channel or its name, with or without #. A
// regular expression that counts characters of all scripts would take megabytes.
func isSlackChannel(s string) bool {
	if slackID.MatchString(s) {
		return true
	}
	n := 0
	for _, r := range strings.TrimPrefix(s, "#") {
		if !unicode.In(r, unicode.Ll, unicode.Lo, unicode.N) && r != '_' && r != '-' {
			return false
		}
		n++
	}
	return n > 0 && n <= slackName
}

// slack checks a destination. Approvers must be ids: a name would never match the id that Slack
// reports for the user who pressed a button.
func (c *checker) slack(d *Destination) {
	if d.Type != DestinationSlack {
		if d.Channel != "" || d.BotTokenEnv != "" || d.AppTokenEnv != "" || len(d.Mention) > 0 || len(d.Approvers) > 0 {
			c.reportError(d, "", "write type: slack", "channel, tokens, mention and approvers need type: slack")
		}
		return
	}
	switch {
	case d.Channel == "":
		c.reportError(d, "", "", "a slack destination needs a channel")
	case !isSlackChannel(d.Channel):
		c.reportError(&d.Channel, "", "write its id, as C0123ABCD, or its name", "%q is not a Slack channel", d.Channel)
	}
	if len(d.Approvers) == 0 {
		c.reportError(d, "", "list the Slack ids of the approvers", "a slack destination needs approvers")
	}
	for i := range d.Approvers {
		if !slackApprover.MatchString(d.Approvers[i]) {
			c.reportError(&d.Approvers[i], "", "write the member id from the profile, as U0123ABCD", "%q is not a Slack user id", d.Approvers[i])
		}
	}
	for i := range d.Mention {
		if !slackMention.MatchString(d.Mention[i]) {
			c.reportError(&d.Mention[i], "", "write the id of a user or user group, or here, channel, everyone", "%q is not a Slack mention", d.Mention[i])
		}
	}
	// The value may be the token itself, so it must not be shown.
	for _, name := range []*string{&d.BotTokenEnv, &d.AppTokenEnv} {
		if *name != "" && !variableName.MatchString(*name) {
			c.reportError(name, "", "do not write the token itself into this file", "expected the name of the variable or credential that holds the token")
		}
	}
	if d.BotTokenEnv != "" && d.BotTokenEnv == d.AppTokenEnv {
		c.reportError(&d.AppTokenEnv, "", "", "the bot token and the app token must differ")
	}
}

// complete sets the names of the tokens where they are empty.
func (d *Destination) complete() {
	if d.Type != DestinationSlack {
		return
	}
	if d.BotTokenEnv == "" {
		d.BotTokenEnv = slackBotToken
	}
	if d.AppTokenEnv == "" {
		d.AppTokenEnv = slackAppToken
	}
}

// Answers reports whether the Slack user with this id may answer the questions of w.
func (w *Workflow) Answers(user string) bool {
	return w.Destination.Type == DestinationSlack && slices.Contains(w.Destination.Approvers, user)
}

// Sampling specifies who answers when a server sends a request to the agent's model.
type Sampling struct {
	Provider      string       `yaml:"provider" doc:"EXTENSION/PROVIDER or EXTENSION/PROVIDER:MODEL of an installed extension; if left out, agents answer"`
	When          SamplingWhen `yaml:"when" doc:"when it answers in the agent's place: unable | always | never (only where a rule names it)"`
	MaxIterations int          `yaml:"max_iterations" min:"1" max:"64" doc:"maximum number of model requests for one answer; each use of tools takes one more"`
	MaxTokens     int          `yaml:"max_tokens" min:"1" max:"1000000" doc:"maximum for one answer, whatever the server requests"`
	Tools         []Glob       `yaml:"tools" one:"true" doc:"globs over EXTENSION/TOOL: tools of extensions that the model may use; each use is judged like any call; if left out, none"`
}

var providerName = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,63})/([^/:\s]{1,128})(?::(\S{1,256}))?$`)

// Named returns the parts of Provider, or empty strings if there is none. model is empty if the
// provider chooses.
func (s *Sampling) Named() (extension, provider, model string) {
	if m := providerName.FindStringSubmatch(s.Provider); m != nil {
		return m[1], m[2], m[3]
	}
	return "", "", ""
}

func (c *checker) sampling() {
	s := &c.Sampling
	if s.Provider != "" && !providerName.MatchString(s.Provider) {
		c.reportError(&s.Provider, "V-SAM-001", "write it as notes/claude or notes/claude:small", "%q is not a provider of an extension", s.Provider)
	}
	if s.Provider == "" && s.When == SamplingAlways {
		c.reportError(&s.When, "V-SAM-002", "add provider: with a provider of an extension", "when: always needs a provider")
	}
}

// answerBy checks the key answer_by of a rule.
func (c *checker) answerBy(r *Rule) {
	switch {
	case r.AnswerBy == "":
	case r.Action == Deny:
		c.reportError(&r.AnswerBy, "V-SAM-003", "", "answer_by has no effect with action: deny")
	case r.AnswerBy == AnswerByProvider && c.Sampling.Provider == "":
		c.reportError(&r.AnswerBy, "V-SAM-002", "add sampling: {provider: ...}", "answer_by: provider needs a provider")
	}
}

// Credential is the prefix that marks the name of a credential of the service manager where a
// path could stand.
const Credential = "credential:"

// Loopback reports whether host names this machine, as localhost or a loopback address.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// telemetry checks V-TEL-002 to V-TEL-009. V-TEL-001 is a bound in a struct tag.
func (c *checker) telemetry() {
	t := &c.Telemetry
	o := &t.OTLP
	if t.Enabled && o.Endpoint == "" {
		c.reportError(&t.Enabled, "V-TEL-002", `add otlp: {endpoint: "http://localhost:4318"}`, "traces are enabled without an endpoint")
	}
	if o.Endpoint != "" {
		c.endpoint(&o.Endpoint)
	}
	if o.Protocol != "http/protobuf" {
		c.reportError(&o.Protocol, "V-TEL-003", "", "the protocol must be http/protobuf")
	}
	for _, name := range keysOf(o.Headers) {
		if !headerName.MatchString(name) {
			c.reportError(&o.Headers, "V-TEL-005", "", "invalid header name %q", name)
		}
		if strings.ContainsAny(o.Headers[name], "\n\t") {
			c.reportError(&o.Headers, "V-TEL-006", "", "the value of the header %q contains a line break or a tab", name)
		}
	}
	for _, name := range keysOf(o.HeaderFiles) {
		if !headerName.MatchString(name) {
			c.reportError(&o.HeaderFiles, "V-TEL-005", "", "invalid header name %q", name)
		}
		if slices.ContainsFunc(keysOf(o.Headers), func(other string) bool { return strings.EqualFold(name, other) }) {
			c.reportError(&o.HeaderFiles, "V-TEL-009", "remove one of them", "the header %q is also in headers", name)
		}
		if file := o.HeaderFiles[name]; file == "" || file == Credential || strings.ContainsRune(strings.TrimPrefix(file, Credential), 0) || strings.HasPrefix(file, Credential) && strings.Contains(file, "/") {
			c.reportError(&o.HeaderFiles, "V-TEL-006", "write a path, or credential:NAME", "the header %q has no file", name)
		}
	}
	for _, key := range keysOf(t.Resource) {
		if key == "" || strings.TrimSpace(key) != key {
			c.reportError(&t.Resource, "V-TEL-007", "", "invalid attribute name %q", key)
		}
		if len(t.Resource[key]) > 4096 {
			c.reportError(&t.Resource, "V-TEL-008", "", "the value of the attribute %q is longer than 4096 bytes", key)
		}
	}
}

func (c *checker) endpoint(field *string) {
	u, err := url.Parse(*field)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.reportError(field, "V-TEL-002", `write it as "http://localhost:4318"`, "the endpoint must be an http or https URL")
	case u.User != nil:
		c.reportError(field, "V-TEL-004", "put credentials into headers or header_files", "the endpoint must not contain a user or password")
	case u.RawQuery != "" || u.Fragment != "":
		c.reportError(field, "V-TEL-002", "", "the endpoint must not have a query or a fragment")
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		c.reportError(field, "V-TEL-002", "use https, or a collector on this machine", "traces would cross the network unencrypted")
	}
}
