package policy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
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
	o := rawjson.Read(params)
	for _, name := range []string{"message", "systemPrompt", "messages", "url"} {
		o.Has(name) // what an agent may take for it is an error
	}
	for _, m := range o.Members {
		switch m.Name {
		case "message", "systemPrompt":
			d.text = append(d.text, o.Text(m.Name))
		case "messages":
			d.addTexts(m.Value)
		case "url":
			d.uri = o.Text(m.Name)
		case "tools", "requestedSchema":
			if o.Get(m.Name) == nil {
				o.Fail("%s is null", m.Name)
			}
		}
	}
	for _, tool := range o.Objects("tools") {
		if tool.Has("name") {
			d.tools = append(d.tools, tool.Text("name"))
		}
	}
	if schema := o.Object("requestedSchema"); schema.Has("properties") {
		properties, err := rawjson.Members(schema.Get("properties"))
		if err != nil {
			o.Fail("requestedSchema.properties: %w", err)
		}
		for _, p := range properties {
			d.properties = append(d.properties, p.Name)
		}
	}
	return o.Err()
}

// addTexts collects every member "text" in value, at any depth.
func (d *askDetails) addTexts(value jsontext.Value) {
	dec, isText := jsontext.NewDecoder(bytes.NewBuffer(value)), false
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return // the end: what is in it was read strictly before
		}
		switch kind, n := dec.StackIndex(dec.StackDepth()); {
		case token.Kind() != '"' || kind != '{':
		case n%2 == 1: // a name
			isText = token.String() == "text"
		case isText:
			d.text = append(d.text, token.String())
		}
	}
}
