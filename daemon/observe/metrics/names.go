package metrics

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Names of servers, tools and methods are untrusted. Each new one would be kept for ever, here and
// in the systems that collect the metrics, so only a limited number of them gets its own label.
// Names are escaped as for a screen, which also makes them valid: the library panics if a label is
// not UTF-8.
const (
	mostServers        = 64  // servers with a label of their own
	mostTools          = 512 // tools with a label of their own, over all servers
	mostToolsPerServer = 64  // tools with a label of their own, of one server
	longestName        = 128 // length of a displayed name, in bytes

	other = "other" // label of all further names
	none  = "none"  // label of an absent value
)

// names assigns labels to names, up to a limit.
type names struct {
	each, all int // limits for one group, and for all groups

	mu    sync.RWMutex // guards the fields below
	shown map[name]string
	count map[string]int // by group
}

type name struct{ group, text string }

func newNames(each, all int) *names {
	return &names{each: each, all: all, shown: map[name]string{}, count: map[string]int{}}
}

// of returns the label of a name. It stays the same as long as the daemon runs.
func (n *names) of(group, text string) string {
	k := name{group, text}
	n.mu.RLock()
	shown, ok := n.shown[k]
	full := len(n.shown) >= n.all || n.count[group] >= n.each
	n.mu.RUnlock()
	switch {
	case ok:
		return shown
	case text == "":
		return none
	case full || len(text) > longestName:
		return other
	}
	return n.add(name{strings.Clone(group), strings.Clone(text)})
}

func (n *names) add(k name) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if shown, ok := n.shown[k]; ok {
		return shown
	}
	if len(n.shown) >= n.all || n.count[k.group] >= n.each {
		return other
	}
	n.count[k.group]++
	n.shown[k] = clean(k.text)
	return n.shown[k]
}

// clean returns text as it may be displayed, cut to longestName.
func clean(text string) string {
	shown := string(display.Name(text))
	if len(shown) <= longestName {
		return shown
	}
	cut := longestName - len("…")
	for !utf8.RuneStart(shown[cut]) {
		cut--
	}
	return shown[:cut] + "…"
}

// methods are the methods with a label of their own.
var methods = func() map[string]bool {
	known := map[string]bool{}
	for _, side := range []wire.Side{wire.FromAgent, wire.FromServer} {
		for _, method := range mcp.Methods(side) {
			known[method] = true
		}
	}
	return known
}()

// surfaces are the surfaces with a label of their own.
var surfaces = func() map[string]bool {
	known := map[string]bool{}
	for _, surface := range config.Surfaces() {
		known[surface] = true
	}
	return known
}()

// among returns value if it is known, or the label of other or absent values.
func among(known map[string]bool, value string) string {
	switch {
	case known[value]:
		return value
	case value == "":
		return none
	}
	return other
}
