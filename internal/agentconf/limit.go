package agentconf

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// An agent gives up on a server after a while, and lets people say after how
// long. Through the shim both a start and a call may take longer than their
// settings allow for.
const (
	// startAllowed: the shim waits for its daemon before it starts the server,
	// which then has as long as agents usually give it.
	startAllowed = 45 * time.Second
	// callAllowed: a question to a person stays open for ten minutes unless the
	// configuration says otherwise, and the call itself takes its time after it.
	callAllowed = 11 * time.Minute
)

// limit is a setting of an entry, a number, that is raised while the entry is
// rewritten. A person who allows more keeps it.
type limit struct {
	key   string
	least int // in the unit of the setting
	// lax: an entry without the setting is not limited as tightly, and is left
	// without it.
	lax bool
}

// limits are the settings to raise, by the type of the agent. An adapter has to
// do nothing for it but stand here.
var limits = map[string][]limit{
	"claude-code": {{"timeout", int(callAllowed / time.Millisecond), true}},
	"zed":         {{"timeout", int(callAllowed / time.Second), false}},
	"gemini":      {{"timeout", int(callAllowed / time.Millisecond), true}},
	"opencode":    {{"timeout", int(callAllowed / time.Millisecond), false}},
	"copilot-cli": {{"timeout", int(callAllowed / time.Millisecond), false}},
	"cline":       {{"timeout", int(callAllowed / time.Second), false}},
	"codex": {
		{"startup_timeout_sec", int(startAllowed / time.Second), false},
		{"tool_timeout_sec", int(callAllowed / time.Second), false},
	},
	"goose": {{"timeout", int(callAllowed / time.Second), false}},
}

// patiences say after how long agents give up a call that was not answered, where
// that is not what limits make it.
var patiences = map[string]time.Duration{
	"claude-desktop": time.Minute,
	"cline":          time.Minute, // an entry of its inner form keeps its limit
	"gemini":         10 * time.Minute,
	"vscode":         callAllowed, // no limit was found
}

// Patience is after how long an agent of the type gives up a call that was not
// answered, once its limits are raised; 0 where nobody knows.
func Patience(agent string) time.Duration {
	if known := patiences[agent]; known > 0 {
		return known
	}
	if len(limits[agent]) > 0 {
		return callAllowed
	}
	return 0
}

// limitsOf are the limits of an entry of an agent.
func limitsOf(agent string, e *Entry) []limit {
	if e.limits != nil { // the adapter knows better
		return e.limits
	}
	if e.form == zedForm || e.Path[len(e.Path)-1] == clineInner { // zed's older form has no such setting, and cline's stands one level above
		return nil
	}
	return limits[agent]
}

// limitWas is how a setting was before it was raised.
type limitWas struct {
	Key string `json:"key"`
	Was string `json:"was,omitempty"` // the text of the value, empty for none
	Now string `json:"now"`
}

// raised returns the limits that are too low in the entry n, and what they are
// to be. A setting that is no number is the agent's business.
func raised(n edit.Node, limits []limit) []limitWas {
	var out []limitWas
	for _, l := range limits {
		value := n.Member(l.key)
		switch value.Kind() {
		case edit.Absent, edit.Null:
			if l.lax {
				continue
			}
		case edit.Number:
			if number, ok := numberOf(value.Raw()); !ok || number >= float64(l.least) {
				continue
			}
		default:
			continue
		}
		out = append(out, limitWas{l.key, value.Written(), strconv.Itoa(l.least)})
	}
	return out
}

// numberOf reads a number of any syntax.
func numberOf(text string) (float64, bool) {
	text = strings.ReplaceAll(text, "_", "")
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(n), true
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// unchanged returns those of limits that the entry n has as they were raised. What
// somebody has set since is left out; the same number in another spelling does not
// count as such.
func unchanged(n edit.Node, limits []limitWas) []limitWas {
	return slices.DeleteFunc(slices.Clone(limits), func(l limitWas) bool {
		value := n.Member(l.Key)
		now, ok := numberOf(value.Raw())
		ours, _ := numberOf(l.Now)
		return value.Kind() != edit.Number || !ok || now != ours
	})
}

// raisedSince compares an entry with how it was, and returns the limits that any
// agent's adapter would have raised so.
func raisedSince(now, then edit.Node) []limitWas {
	var out []limitWas
	for _, ofAgent := range limits {
		for _, was := range raised(then, ofAgent) {
			known := slices.ContainsFunc(out, func(l limitWas) bool { return l.Key == was.Key })
			if !known && now.Member(was.Key).Raw() == was.Now {
				out = append(out, was)
			}
		}
	}
	return out
}

// stillRaised returns the settings of the entries that hold our lines in doc which
// have the very value that they are raised to, and have it still after the lines
// were taken out.
func stillRaised(doc, after *edit.Document) []string {
	var found []string
	for _, path := range linesIn(doc.Root(), nil) {
		for _, ofAgent := range limits {
			for _, l := range ofAgent {
				raised := strconv.Itoa(l.least)
				if doc.At(path).Member(l.key).Raw() == raised && after.At(path).Member(l.key).Raw() == raised {
					found = append(found, edit.Pointer(append(path, l.key)))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
