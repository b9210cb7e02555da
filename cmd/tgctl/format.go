package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// shortRoom is how many columns a call's arguments may take in output that is not on a
// terminal.
const shortRoom = 1000

// toolCall is the default method: callName leaves it out.
const toolCall = "tools/call"

// callName names what is called: a tool by its name, anything else with its method.
func callName(method, tool string) display.Safe {
	switch {
	case method == toolCall && tool != "", method == "":
		return display.Name(tool)
	case tool == "":
		return display.Name(method)
	}
	return display.Name(method) + " " + display.Name(tool)
}

// shortParams shows raw params in at most columns columns. If the params of a tool call
// are only a name and arguments, as they should be, it shows the arguments.
func shortParams(method string, params []byte, columns int, hint display.Safe) display.Safe {
	if len(params) == 0 {
		return ""
	}
	if args := argumentsOf(method, params); args != nil {
		params = args
	}
	return display.JSONLine(params, columns, hint)
}

// argumentsOf returns the arguments of a tool call. It returns nil if the params have any
// members but a name and arguments: then all of them must be shown.
func argumentsOf(method string, params []byte) []byte {
	if method != toolCall {
		return nil
	}
	var args []byte
	members, _ := rawjson.Members(params)
	for _, m := range members {
		switch m.Name {
		case "name":
		case "arguments":
			args = m.Value
		default:
			return nil
		}
	}
	return args
}

// orDash shows a name, or a dash if it is empty.
func orDash(name string) display.Safe {
	return display.Name(cmp.Or(name, "-"))
}

// plural formats a number with the singular or plural noun.
func plural[N int | uint32 | uint64](n N, one, many display.Safe) display.Safe {
	if n == 1 {
		return "1 " + one
	}
	return display.Count(n) + " " + many
}

// some formats like plural, followed by rest. It returns an empty string for 0.
func some[N int | uint32 | uint64](n N, one, many, rest display.Safe) display.Safe {
	return choose(n > 0, plural(n, one, many)+rest, "")
}

// choose returns yes if holds is true, otherwise no.
func choose(holds bool, yes, no display.Safe) display.Safe {
	if holds {
		return yes
	}
	return no
}

// each returns the results of f for all elements of all.
func each[T, R any](all []T, f func(T) R) []R {
	made := make([]R, len(all))
	for i, one := range all {
		made[i] = f(one)
	}
	return made
}

// present returns the texts that are not empty.
func present(texts ...display.Safe) []display.Safe {
	return slices.DeleteFunc(texts, func(s display.Safe) bool { return s == "" })
}

// filter returns the elements of all for which keep returns true.
func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// join joins safe texts.
func join(parts []display.Safe, by string) display.Safe {
	return display.Safe(strings.Join(each(parts, func(s display.Safe) string { return string(s) }), by))
}

// nameList formats names as a comma-separated list.
func nameList(names []string) display.Safe { return join(each(names, display.Name), ", ") }

// list returns l, or an empty slice if l is nil, so that JSON gets [] instead of null.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
