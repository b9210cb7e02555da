// Package agent is as it was.
package agent

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const codeParams = -32602

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

var passing = map[string]bool{"sessionId": true, "_meta": true, "toolCallId": true, "status": true}

// bare returns the params as the arguments of a call: without what belongs to the
// conversation and is another in each run, so that a grant for a call of the same
// arguments is good for the next run.
func bare(params []byte) ([]byte, error) {
	out := []byte{'{'}
	err := wire.Members(params, wire.Span{End: len(params)}, func(name []byte, value wire.Span) error {
		if passing[string(name)] {
			return nil
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(wire.AppendQuote(out, string(name)), ':'), bytes.TrimSpace(value.Of(params))...)
		return nil
	})
	if err != nil {
		return nil, &wire.Fault{Code: codeParams, Message: "Invalid params: " + err.Error()}
	}
	return append(out, '}'), nil
}

type option struct {
	id, kind string
}

var kindWord = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)

// readPermission reads what a permission is asked for.
func readPermission(params []byte) (kind string, call []byte, options []option, err error) {
	invalid := func(what string) (string, []byte, []option, error) {
		return "", nil, nil, &wire.Fault{Code: codeParams, Message: "Invalid params: " + what}
	}
	all, err := objectOf(params)
	if err != nil {
		return "", nil, nil, err
	}
	call, err = bare(all["toolCall"])
	if err != nil {
		return invalid("toolCall is no object")
	}
	about, err := objectOf(call)
	if err != nil {
		return "", nil, nil, err
	}
	if kind, err = about.text("kind"); err != nil {
		return "", nil, nil, err
	}
	if kind == "" {
		kind = "other"
	}
	if !kindWord.MatchString(kind) {
		return invalid("toolCall.kind is no word")
	}
	raw := all["options"]
	items, err := wire.Elements(raw, wire.Span{End: len(raw)})
	if err != nil {
		return invalid("options is no list")
	}
	for _, item := range items {
		one, err := objectOf(item.Of(raw))
		if err != nil {
			return "", nil, nil, err
		}
		id, err := one.text("optionId")
		if err != nil {
			return "", nil, nil, err
		}
		word, err := one.text("kind")
		if err != nil {
			return "", nil, nil, err
		}
		options = append(options, option{id, word})
	}
	return kind, call, options, nil
}

// Permission is what a permission is asked for.
func Permission(raw []byte) (string, error) {
	kind, call, options, err := readPermission(raw)
	return fmt.Sprintf("%q %s %v", kind, call, options), err
}

// Bare is bare.
func Bare(raw []byte) (string, error) {
	out, err := bare(raw)
	return string(out), err
}

// Start is what a terminal is started with.
func Start(raw []byte) (string, error) {
	a, err := objectOf(raw)
	if err != nil {
		return "", err
	}
	command, err := a.text("command")
	if err != nil {
		return "", err
	}
	args, err := a.texts("args")
	if err != nil {
		return "", err
	}
	set, err := a.variables("env")
	if err != nil {
		return "", err
	}
	most, err := a.number("outputByteLimit")
	if most < 0 {
		most = 1 << 20
	}
	return fmt.Sprintf("%q %q %v %d", command, args, len(set), min(most, 4<<20)), err
}
