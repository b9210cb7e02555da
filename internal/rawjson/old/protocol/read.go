package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object as it was written: its members in their order.
type object []member

type member struct {
	name  string
	value jsontext.Value
}

// readObject reads an object, and nothing beside it. What two readers could read
// in two ways is an error: a name that comes twice, at any depth, or that comes
// again in other letters, and text that is not Unicode.
func readObject(raw []byte) (object, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if dec.PeekKind() != '{' {
		return nil, errors.New("not a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var o object
	folded := map[string]bool{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		if folded[strings.ToLower(m.name)] {
			return nil, fmt.Errorf("the member %q is there in two spellings", m.name)
		}
		folded[strings.ToLower(m.name)] = true
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		o = append(o, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.New("there is text behind the object")
	}
	return o, nil
}

// get returns the raw value of a member, nil when there is none or it is null.
func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name && m.value.Kind() != 'n' {
			return m.value
		}
	}
	return nil
}

// text returns a member that is a string; ok is false for any other.
func (o object) text(name string) (text string, ok bool) {
	raw := o.get(name)
	if raw.Kind() != '"' {
		return "", false
	}
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	return string(unquoted), err == nil
}

// optional returns a member that may be missing, and is a string else.
func (o object) optional(name string) (string, error) {
	if o.get(name) == nil {
		return "", nil
	}
	text, ok := o.text(name)
	if !ok {
		return "", fmt.Errorf("%s is not a string", name)
	}
	return text, nil
}

// number returns a member that may be missing, and is a whole number from 0 else.
func (o object) number(name string) (uint64, error) {
	raw := o.get(name)
	if raw == nil {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || raw.Kind() != '0' {
		return 0, fmt.Errorf("%s is not a whole number", name)
	}
	return n, nil
}

// raw returns a member in one line, nil when it is missing.
func (o object) raw(name string) []byte { return OneLine(o.get(name)) }

// list returns the values of a member that may be missing, and is an array else.
func (o object) list(name string) ([]jsontext.Value, error) {
	raw := o.get(name)
	if raw == nil {
		return nil, nil
	}
	if raw.Kind() != '[' {
		return nil, fmt.Errorf("%s is not an array", name)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var all []jsontext.Value
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		all = append(all, value.Clone())
	}
	return all, nil
}

// texts returns a member that may be missing, and is an array of strings else.
func (o object) texts(name string) ([]string, error) {
	raws, err := o.list(name)
	if err != nil {
		return nil, fmt.Errorf("%s must be an array of strings", name)
	}
	all := make([]string, 0, len(raws))
	for _, raw := range raws {
		if raw.Kind() != '"' {
			return nil, fmt.Errorf("%s must be an array of strings", name)
		}
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return nil, fmt.Errorf("%s must be an array of strings", name)
		}
		all = append(all, string(text))
	}
	return all, nil
}

// OneLine returns valid JSON without line breaks: as it came if it has none.
func OneLine(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Compact(); err != nil {
		return raw // it is no JSON, and nobody takes it for that
	}
	return value
}

// Plain returns text that an extension chose on one line, at most most bytes of it.
func Plain(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
