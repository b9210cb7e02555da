package protocol

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
)

// Declared is what an extension says in its handshake that it offers. Raw JSON in it
// has no line breaks.
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

// Provider is something that answers for a model.
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
	Capabilities  []byte // raw JSON, of the extension's own making, or nil
	ContextWindow uint64 // in tokens; 0 where it is not said
}

// Capability is something that an extension says it can do. Its kind is a word of
// its author's choice and means nothing to the daemon.
type Capability struct {
	Kind        string
	Name        string
	Permissions []manifest.Permission
	Params      []byte // raw JSON, or nil
}

// Greeting is what an extension is told first.
type Greeting struct {
	Build  string // of the daemon
	Name   string // of the extension
	Root   string // its folder
	Config map[string]string
}

// ReadGreeting reads the answer to a handshake. It refuses another version of the
// protocol, whatever is malformed, and what the manifest does not grant.
func ReadGreeting(raw []byte, m *manifest.Manifest) (*Declared, error) {
	o, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("the answer to initialize can't be read: %w", err)
	}
	version, err := o.number("protocol_version")
	if err != nil || o.get("protocol_version") == nil {
		return nil, errors.New("the answer to initialize has no protocol_version")
	}
	if version != Version {
		return nil, fmt.Errorf("it speaks protocol_version %d, and the only one supported is %d", version, Version)
	}
	d := &Declared{}
	if o.get("capabilities") == nil {
		return d, nil
	}
	if o, err = readObject(o.get("capabilities")); err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	if d.Tools, err = readAll(o, "tools", readTool); err != nil {
		return nil, err
	}
	if d.Providers, err = readAll(o, "providers", readProvider); err != nil {
		return nil, err
	}
	if d.Capabilities, err = readAll(o, "capabilities", readCapability); err != nil {
		return nil, err
	}
	return d, d.check(m)
}

func readAll[T any](o object, name string, read func(object) (T, error)) ([]T, error) {
	raws, err := o.list(name)
	if err != nil {
		return nil, err
	}
	var all []T
	for i, raw := range raws {
		one, err := readObject(raw)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		item, err := read(one)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		all = append(all, item)
	}
	return all, nil
}

// need reads members that must be strings.
func (o object) need(into map[string]*string) error {
	for name, to := range into {
		text, ok := o.text(name)
		if !ok {
			return fmt.Errorf("missing or invalid %q", name)
		}
		*to = text
	}
	return nil
}

func readTool(o object) (t Tool, err error) {
	err = o.need(map[string]*string{"name": &t.Name, "description": &t.Description})
	t.InputSchema = o.raw("input_schema")
	return t, err
}

func readProvider(o object) (p Provider, err error) {
	if err = o.need(map[string]*string{"id": &p.ID, "display_name": &p.DisplayName, "description": &p.Description}); err != nil {
		return p, err
	}
	p.ConfigSchema = o.raw("config_schema")
	p.Models, err = readAll(o, "models", func(o object) (m Model, err error) {
		if err = o.need(map[string]*string{"id": &m.ID}); err == nil {
			m.DisplayName, err = o.optional("display_name")
		}
		if err == nil {
			m.ContextWindow, err = o.number("context_window")
		}
		m.Capabilities = o.raw("capabilities")
		return m, err
	})
	return p, err
}

func readCapability(o object) (c Capability, err error) {
	if err = o.need(map[string]*string{"kind": &c.Kind, "name": &c.Name}); err != nil {
		return c, err
	}
	words, err := o.texts("permissions")
	for _, word := range words {
		c.Permissions = append(c.Permissions, manifest.Permission(word))
	}
	c.Params = o.raw("params")
	return c, err
}

// check refuses what can't be meant, and what the manifest does not grant.
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
	return fmt.Errorf("it offers %s, and its manifest does not have the permission %s", what, p)
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
	longestID = 64 // bytes of the name of a tool, or of the id of a provider or model
	reserved  = ":"
)

// checkID refuses a name that could not stand as one part of a longer one.
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
			return fmt.Errorf("invalid %s %q: it contains %U, which is not seen", what, id, r)
		}
	}
	return nil
}
