package agent

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// object is a JSON object, each value raw. Names are exact: of a name in another
// case the gates would have seen something else.
type object map[string][]byte

func objectOf(raw []byte) (object, error) {
	all := object{}
	err := wire.Members(raw, wire.Span{End: len(raw)}, func(name []byte, value wire.Span) error {
		all[string(name)] = value.Of(raw)
		return nil
	})
	if err != nil {
		return nil, &wire.Fault{Code: codeParams, Message: "Invalid params: " + err.Error()}
	}
	return all, nil
}

// text returns a string member; empty where there is none, or null.
func (o object) text(name string) (string, error) {
	raw := o[name]
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	text, err := wire.Unquote(wire.Span{End: len(raw)}, raw)
	if err != nil {
		return "", &wire.Fault{Code: codeParams, Message: fmt.Sprintf("Invalid params: %s: %v", name, err)}
	}
	return text, nil
}

// number returns a member that is no less than 0, -1 where there is none, or null.
func (o object) number(name string) (int, error) {
	raw := o[name]
	if len(raw) == 0 || string(raw) == "null" {
		return -1, nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 31)
	if err != nil {
		return 0, &wire.Fault{Code: codeParams, Message: fmt.Sprintf("Invalid params: %s is no whole number", name)}
	}
	return int(n), nil
}

// items returns where the elements of a member that is a list lie in it; nil where
// there is none, or null.
func (o object) items(name string) ([]wire.Span, error) {
	raw := o[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	items, err := wire.Elements(raw, wire.Span{End: len(raw)})
	if err != nil {
		return nil, &wire.Fault{Code: codeParams, Message: fmt.Sprintf("Invalid params: %s: %v", name, err)}
	}
	return items, nil
}

// texts returns a member that is a list of strings; nil where there is none, or null.
func (o object) texts(name string) ([]string, error) {
	raw := o[name]
	items, err := o.items(name)
	if items == nil || err != nil {
		return nil, err
	}
	var all []string
	for _, item := range items {
		text, err := wire.Unquote(item, raw)
		if err != nil || strings.ContainsRune(text, 0) {
			return nil, &wire.Fault{Code: codeParams, Message: fmt.Sprintf("Invalid params: %s holds what is no text", name)}
		}
		all = append(all, text)
	}
	return all, nil
}

// variables returns a member that is a list of {name, value}. The marks of what a run
// has started stay as they are.
func (o object) variables(name string) (map[string]string, error) {
	raw := o[name]
	items, err := o.items(name)
	if items == nil || err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, item := range items {
		one, err := objectOf(item.Of(raw))
		if err != nil {
			return nil, err
		}
		key, err := one.text("name")
		if err != nil {
			return nil, err
		}
		value, err := one.text("value")
		if err != nil {
			return nil, err
		}
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) || strings.HasPrefix(key, "THOUGHTGATE_") {
			return nil, fmt.Errorf("a variable can't be named %q here", key)
		}
		all[key] = value
	}
	return all, nil
}
