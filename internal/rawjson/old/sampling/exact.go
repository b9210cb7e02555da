// Package sampling is as it was.
package sampling

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// known are the names that are looked for, at any depth.
var known = []string{
	"messages", "modelPreferences", "hints", "name", "systemPrompt", "temperature", "maxTokens", "stopSequences", "tools", "toolChoice", "mode",
	"role", "content", "type", "text", "id", "input", "toolUseId", "isError", "description", "inputSchema", "result", "error", "message",
}

// theirs are the members below which names are somebody else's business.
var theirs = map[string]bool{"input": true, "inputSchema": true, "outputSchema": true, "structuredContent": true, "metadata": true, "_meta": true, "annotations": true}

// decode decodes raw into to. The decoder takes names for others that differ in
// case only, and what was judged by one name must not be read by another: such
// names are an error.
func decode(raw []byte, to any) error {
	if err := exact(jsontext.NewDecoder(bytes.NewReader(raw))); err != nil {
		return err
	}
	err := json.Unmarshal(raw, to)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) { // its own words name our types
		return fmt.Errorf("the member %s is a %s", kind.Field, kind.Value)
	}
	return err
}

// exact reads one value.
func exact(dec *jsontext.Decoder) error {
	kind := dec.PeekKind()
	if kind != '{' && kind != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		name := ""
		if kind == '{' {
			tok, err := dec.ReadToken()
			if err != nil {
				return err
			}
			name = tok.String()
			for _, k := range known {
				if name != k && strings.EqualFold(name, k) {
					return fmt.Errorf("the member %q can be taken for %s", name, k)
				}
			}
		}
		if theirs[name] {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := exact(dec); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}
