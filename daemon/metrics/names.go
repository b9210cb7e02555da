package metrics

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Names of servers, tools and methods come from strangers. Each new one would be
// one more thing to keep, for ever and in whatever reads the metrics, so only so
// many are told apart. They are escaped as for a screen, which also makes them
// valid: the library panics at a label that is no UTF-8.
const (
	mostServers        = 64  // servers that are told apart
	mostTools          = 512 // tools that are, of all servers
	mostToolsPerServer = 64  // tools that are, of one server
	longestName        = 128 // bytes of a name, as it is shown

	other = "other" // stands for all names past those
	none  = "none"  // stands for a value that is not there
)

// names tells names within a group apart, up to a limit.
type names struct {
	each, all int // how many in one group, and in all of them

	mu    sync.RWMutex // guards what follows
	shown map[name]string
	count map[string]int // by group
}

type name struct{ group, text string }

func newNames(each, all int) *names {
	return &names{each: each, all: all, shown: map[name]string{}, count: map[string]int{}}
}

// of returns the label of a name, which is the same as long as the daemon runs.
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

// clean is text as it may be shown, cut to longestName.
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

// methods are those that are told apart.
var methods = func() map[string]bool {
	known := map[string]bool{}
	for _, side := range []wire.Side{wire.FromAgent, wire.FromServer} {
		for _, method := range mcp.Methods(side) {
			known[method] = true
		}
	}
	return known
}()

// surfaces are those that are told apart.
var surfaces = map[string]bool{"terminal": true, "desktop": true, "slack": true, "script": true}

// among returns value if it is known, else what stands for the others.
func among(known map[string]bool, value string) string {
	switch {
	case known[value]:
		return value
	case value == "":
		return none
	}
	return other
}
