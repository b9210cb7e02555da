package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// ShortRoom is how many columns a call's arguments may take in output that is not on a
// terminal.
const ShortRoom = 1000

// ToolCall is the default method: callName leaves it out.
const ToolCall = "tools/call"

// CallName names what is called: a tool by its name, anything else with its method.
func CallName(method, tool string) display.Safe {
	switch {
	case method == ToolCall && tool != "", method == "":
		return display.Name(tool)
	case tool == "":
		return display.Name(method)
	}
	return display.Name(method) + " " + display.Name(tool)
}

// ShortParams shows raw params in at most columns columns. If the params of a tool call
// are only a name and arguments, as they should be, it shows the arguments.
func ShortParams(method string, params []byte, columns int, hint display.Safe) display.Safe {
	if len(params) == 0 {
		return ""
	}
	if args := ArgumentsOf(method, params); args != nil {
		params = args
	}
	return display.JSONLine(params, columns, hint)
}

// ArgumentsOf returns the arguments of a tool call. It returns nil if the params have any
// members but a name and arguments: then all of them must be shown.
func ArgumentsOf(method string, params []byte) []byte {
	if method != ToolCall {
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

// OrDash shows a name, or a dash if it is empty.
func OrDash(name string) display.Safe {
	return display.Name(cmp.Or(name, "-"))
}

// Plural formats a number with the singular or plural noun.
func Plural[N int | uint32 | uint64](n N, one, many display.Safe) display.Safe {
	if n == 1 {
		return "1 " + one
	}
	return display.Count(n) + " " + many
}

// Some formats like plural, followed by rest. It returns an empty string for 0.
func Some[N int | uint32 | uint64](n N, one, many, rest display.Safe) display.Safe {
	return Choose(n > 0, Plural(n, one, many)+rest, "")
}

// Choose returns yes if holds is true, otherwise no.
func Choose(holds bool, yes, no display.Safe) display.Safe {
	if holds {
		return yes
	}
	return no
}

// Map returns the results of f for all elements of all.
func Map[T, R any](all []T, f func(T) R) []R {
	made := make([]R, len(all))
	for i, one := range all {
		made[i] = f(one)
	}
	return made
}

// NonEmpty returns the texts that are not empty.
func NonEmpty(texts ...display.Safe) []display.Safe {
	return slices.DeleteFunc(texts, func(s display.Safe) bool { return s == "" })
}

// Filter returns the elements of all for which keep returns true.
func Filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// Join joins safe texts.
func Join(parts []display.Safe, by string) display.Safe {
	return display.Safe(strings.Join(Map(parts, func(s display.Safe) string { return string(s) }), by))
}

// NameList formats names as a comma-separated list.
func NameList(names []string) display.Safe { return Join(Map(names, display.Name), ", ") }

// List returns l, or an empty slice if l is nil, so that JSON gets [] instead of null.
func List[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// barColumns is the width of a progress bar without its brackets.
const barColumns = 24

// Bar shows how much of something is done: part is between 0 and 1.
func Bar(part float64) display.Safe {
	full := int(part * barColumns)
	return display.Safe(fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat("-", barColumns-full), part*100))
}
