package agenthook

import (
	_ "embed" // the text of the plugin
	"strings"
)

// opencode runs no programs, but plugins: its file with hooks is a script of ours, in which the
// entries stand as JSON between two marks.
//
//go:embed opencode.js
var plugin string

const pluginBegin, pluginEnd = "\nconst entries = ", "\n// end of the entries\n"

// Plugin returns the places in a script at which the entries begin and end. It reports false
// unless all else is our plugin, byte for byte.
func Plugin(script string) (begin, end int, ours bool) {
	head, rest, _ := strings.Cut(plugin, pluginBegin)
	_, tail, _ := strings.Cut(rest, pluginEnd)
	head, tail = head+pluginBegin, pluginEnd+tail
	begin, end = len(head), len(script)-len(tail)
	return begin, end, begin < end && strings.HasPrefix(script, head) && strings.HasSuffix(script, tail)
}
