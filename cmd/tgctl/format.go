package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// shortRoom is how many columns a call's arguments may take in a list that is
// not on a terminal.
const shortRoom = 1000

// toolCall is the method that needs no mention: what is called is a tool.
const toolCall = "tools/call"

// callName says what is called: a tool by its name, all else by its method too.
func callName(method, tool string) display.Safe {
	switch {
	case method == toolCall && tool != "", method == "":
		return display.Name(tool)
	case tool == "":
		return display.Name(method)
	}
	return display.Name(method) + " " + display.Name(tool)
}

// shortParams shows raw params in at most columns columns. Of a tool call whose
// params are a name and arguments, as they should be, it shows the arguments.
func shortParams(method string, params []byte, columns int, hint display.Safe) display.Safe {
	if len(params) == 0 {
		return ""
	}
	if args := argumentsOf(method, params); args != nil {
		params = args
	}
	return display.JSONLine(params, columns, hint)
}

// argumentsOf returns the arguments of a tool call, nil when its params hold
// anything but them and a name: then all of them must be shown.
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

// orDash shows a name, or a dash where there is none.
func orDash(name string) display.Safe {
	return display.Name(cmp.Or(name, "-"))
}

// plural writes a number and what is counted.
func plural[N int | uint32 | uint64](n N, one, many display.Safe) display.Safe {
	if n == 1 {
		return "1 " + one
	}
	return display.Count(n) + " " + many
}

// some is what plural writes with rest behind it, and nothing for none.
func some[N int | uint32 | uint64](n N, one, many, rest display.Safe) display.Safe {
	return either(n > 0, plural(n, one, many)+rest, "")
}

// either is yes where a condition holds, else no.
func either(holds bool, yes, no display.Safe) display.Safe {
	if holds {
		return yes
	}
	return no
}

// each is what f makes of each of all.
func each[T, R any](all []T, f func(T) R) []R {
	made := make([]R, len(all))
	for i, one := range all {
		made[i] = f(one)
	}
	return made
}

// present are those texts that are not empty.
func present(texts ...display.Safe) []display.Safe {
	return slices.DeleteFunc(texts, func(s display.Safe) bool { return s == "" })
}

// those are the elements of all that keep reports true of.
func those[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// join joins text that may be shown.
func join(parts []display.Safe, by string) display.Safe {
	return display.Safe(strings.Join(each(parts, func(s display.Safe) string { return string(s) }), by))
}

// nameList shows names in one line.
func nameList(names []string) display.Safe { return join(each(names, display.Name), ", ") }

// list is l for a field of a JSON object that is always there.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
