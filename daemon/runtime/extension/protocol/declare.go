package protocol

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Declared is what an extension declares in its handshake. Raw JSON in it has no line breaks.
type Declared struct {
	Tools        []Tool
	Providers    []Provider
	Capabilities []Capability
}

// Tool is a tool that agents can be offered.
type Tool struct {
	Name        string
	Description string
	InputSchema []byte // a raw JSON object
}

// Provider is a source of models.
type Provider struct {
	ID           string
	DisplayName  string
	Description  string
	Models       []Model // at least one
	ConfigSchema []byte  // a raw JSON object, or nil
}

// Model is one model of a provider.
type Model struct {
	ID            string
	DisplayName   string // may be empty
	Capabilities  []byte // raw JSON that the extension defines, or nil
	ContextWindow uint64 // in tokens; 0 if absent
}

// Capability is something that an extension says it can do. Its author chooses the kind; it
// means nothing to the daemon.
type Capability struct {
	Kind        string
	Name        string
	Permissions []manifest.Permission
	Params      []byte // raw JSON, or nil
}

// Greeting is what the daemon sends in the handshake.
type Greeting struct {
	Build  string // of the daemon
	Name   string // of the extension
	Root   string // its folder
	Config map[string]string
}

// ReadGreeting parses the answer to a handshake. It rejects another version of the protocol,
// anything malformed, and what the manifest does not permit.
func ReadGreeting(raw []byte, m *manifest.Manifest) (*Declared, error) {
	o := rawjson.Read(raw)
	switch version := o.Number("protocol_version", 0); {
	case !o.Has("protocol_version"):
		o.Fail("protocol_version is missing")
	case version != Version:
		o.Fail("unsupported protocol_version %d; supported is %d", version, Version)
	}
	d, offered := &Declared{}, o.Object("capabilities")
	for _, t := range offered.Objects("tools") {
		d.Tools = append(d.Tools, Tool{t.Text("name"), t.Text("description"), OneLine(t.Get("input_schema"))})
	}
	for _, p := range offered.Objects("providers") {
		d.Providers = append(d.Providers, readProvider(p))
	}
	for _, c := range offered.Objects("capabilities") {
		d.Capabilities = append(d.Capabilities, readCapability(c))
	}
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("the answer to initialize: %w", err)
	}
	return d, d.check(m)
}

func readProvider(o rawjson.Object) Provider {
	p := Provider{ID: o.Text("id"), DisplayName: o.Text("display_name"), Description: o.Text("description"), ConfigSchema: OneLine(o.Get("config_schema"))}
	for _, m := range o.Objects("models") {
		p.Models = append(p.Models, Model{m.Text("id"), m.OptionalText("display_name"), OneLine(m.Get("capabilities")), m.Number("context_window", 0)})
	}
	return p
}

func readCapability(o rawjson.Object) Capability {
	c := Capability{Kind: o.Text("kind"), Name: o.Text("name"), Params: OneLine(o.Get("params"))}
	for _, word := range o.Texts("permissions") {
		c.Permissions = append(c.Permissions, manifest.Permission(word))
	}
	return c
}

// check returns an error for what is invalid or not permitted by the manifest.
func (d *Declared) check(m *manifest.Manifest) error {
	if len(d.Tools) > 0 && !m.Has(manifest.Tools) {
		return notGranted("tools", manifest.Tools)
	}
	if len(d.Providers) > 0 && !m.Has(manifest.Providers) {
		return notGranted("providers", manifest.Providers)
	}
	names := map[string]bool{}
	for _, t := range d.Tools {
		if err := t.check(names); err != nil {
			return err
		}
	}
	ids := map[string]bool{}
	for _, p := range d.Providers {
		if err := p.check(ids); err != nil {
			return err
		}
	}
	for _, c := range d.Capabilities {
		if err := c.check(m); err != nil {
			return err
		}
	}
	return nil
}

func notGranted(what string, p manifest.Permission) error {
	return fmt.Errorf("it offers %s, but its manifest lacks the permission %s", what, p)
}

func (t *Tool) check(names map[string]bool) error {
	if err := checkID("tool name", t.Name); err != nil {
		return err
	}
	if names[t.Name] {
		return fmt.Errorf("duplicate tool name %q", t.Name)
	}
	names[t.Name] = true
	switch {
	case blank(t.Description):
		return fmt.Errorf("the tool %q has an empty description", t.Name)
	case !isObject(t.InputSchema):
		return fmt.Errorf("the tool %q has an input_schema that is not a JSON object", t.Name)
	}
	return nil
}

func (p *Provider) check(ids map[string]bool) error {
	if err := checkID("provider id", p.ID); err != nil {
		return err
	}
	unsafe := func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_') }
	switch {
	case strings.ContainsFunc(p.ID, unsafe):
		return fmt.Errorf("invalid provider id %q: use lower case letters, digits, - and _", p.ID)
	case ids[p.ID]:
		return fmt.Errorf("duplicate provider id %q", p.ID)
	case blank(p.DisplayName):
		return fmt.Errorf("the provider %q has an empty display_name", p.ID)
	case blank(p.Description):
		return fmt.Errorf("the provider %q has an empty description", p.ID)
	case len(p.Models) == 0:
		return fmt.Errorf("the provider %q must declare at least one model", p.ID)
	case p.ConfigSchema != nil && !isObject(p.ConfigSchema):
		return fmt.Errorf("the provider %q has a config_schema that is not a JSON object", p.ID)
	}
	ids[p.ID] = true
	models := map[string]bool{}
	for _, m := range p.Models {
		if err := checkID("model id", m.ID); err != nil {
			return fmt.Errorf("the provider %q: %w", p.ID, err)
		}
		if models[m.ID] {
			return fmt.Errorf("the provider %q has the duplicate model id %q", p.ID, m.ID)
		}
		models[m.ID] = true
	}
	return nil
}

func (c *Capability) check(m *manifest.Manifest) error {
	if blank(c.Kind) {
		return errors.New("a capability's kind must be non-empty")
	}
	if blank(c.Name) {
		return errors.New("a capability's name must be non-empty")
	}
	for _, p := range c.Permissions {
		if !p.Known() {
			return fmt.Errorf("the capability %q declares the unknown permission %q", c.Kind, p)
		}
		if !m.Has(p) {
			return fmt.Errorf("the capability %q requires the permission %q, which is not granted", c.Kind, p)
		}
	}
	return nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

const (
	longestID = 64 // bytes of a tool's name, or of a provider's or model's id
	reserved  = ":"
)

// checkID returns an error for a name that can't be a part of a longer name.
func checkID(what, id string) error {
	if id == "" {
		return fmt.Errorf("empty %s", what)
	}
	if len(id) > longestID {
		return fmt.Errorf("invalid %s %q...: it must be at most %d bytes and has %d", what, Plain(id, longestID), longestID, len(id))
	}
	for _, r := range id {
		switch {
		case strings.ContainsRune(reserved, r):
			return fmt.Errorf("invalid %s %q: %q is reserved", what, id, r)
		case unicode.IsControl(r):
			return fmt.Errorf("invalid %s %q: it contains the control character %U", what, id, r)
		case unicode.IsSpace(r):
			return fmt.Errorf("invalid %s %q: it must not contain whitespace", what, id)
		case !unicode.IsGraphic(r):
			return fmt.Errorf("invalid %s %q: it contains the invisible character %U", what, id, r)
		}
	}
	return nil
}
