package policy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// askDetails is what policies want to know of what a server asks, and would find
// hard to read from the params themselves.
type askDetails struct {
	text       []string // what a model or a person would read, in order
	tools      []string // that a sampling request offers the model
	properties []string // that a form asks for
	uri        string   // that a person is sent to
}

// askValue is context.ask: empty for what is no ask.
func askValue(s *subject, params []byte) (cedar.Record, error) {
	var d askDetails
	if s.class == asks && params != nil {
		if err := d.read(params); err != nil {
			return cedar.Record{}, fmt.Errorf("read what the server asks: %w", err)
		}
	}
	a := uri.Tidy(d.uri) // as the browser that opens it reads it
	return cedar.NewRecord(cedar.RecordMap{
		"text":       cedar.String(strings.Join(d.text, "\n")),
		"tools":      texts(d.tools),
		"properties": texts(d.properties),
		"scheme":     cedar.String(a.Scheme),
		"host":       cedar.String(a.Host),
	}), nil
}

func (d *askDetails) read(params []byte) error {
	return eachMember(params, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "message", "systemPrompt":
			return d.addText(value)
		case "messages":
			return d.texts(value)
		case "url":
			d.uri, err = unquote(value)
			return err
		case "tools":
			return eachItem(value, func(tool jsontext.Value) error {
				return eachMember(tool, func(name string, value jsontext.Value) error {
					if name != "name" {
						return nil
					}
					text, err := unquote(value)
					d.tools = append(d.tools, text)
					return err
				})
			})
		case "requestedSchema":
			return eachMember(value, func(name string, value jsontext.Value) error {
				if name != "properties" {
					return nil
				}
				return eachMember(value, func(name string, _ jsontext.Value) error {
					d.properties = append(d.properties, name)
					return nil
				})
			})
		}
		return nil
	})
}

func (d *askDetails) addText(value jsontext.Value) error {
	text, err := unquote(value)
	d.text = append(d.text, text)
	return err
}

// texts collects every member "text" in value, at any depth.
func (d *askDetails) texts(value jsontext.Value) error {
	switch value.Kind() {
	case '[':
		return eachItem(value, d.texts)
	case '{':
		return eachMember(value, func(name string, value jsontext.Value) error {
			if name == "text" && value.Kind() == '"' {
				return d.addText(value)
			}
			return d.texts(value)
		})
	}
	return nil
}

// eachMember calls f for each member of the JSON object raw.
func eachMember(raw []byte, f func(name string, value jsontext.Value) error) error {
	return each(raw, '{', f)
}

// eachItem calls f for each item of the JSON array raw.
func eachItem(raw []byte, f func(item jsontext.Value) error) error {
	return each(raw, '[', func(_ string, value jsontext.Value) error { return f(value) })
}

func each(raw []byte, kind jsontext.Kind, f func(name string, value jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != kind {
		return fmt.Errorf("found %v, expected %v", tok.Kind(), kind)
	}
	for k := dec.PeekKind(); k != '}' && k != ']'; k = dec.PeekKind() {
		name := ""
		if kind == '{' {
			if tok, err = dec.ReadToken(); err != nil {
				return err
			}
			name = tok.String()
		}
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
}

func unquote(raw []byte) (string, error) {
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err
}
