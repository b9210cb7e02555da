package agentconf

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Agents time out servers, and have settings for how long they wait. With tg-shim, both a start
// and a call may take longer than these settings allow.
const (
	// startAllowed includes the time that tg-shim waits for the daemon before it starts the
	// server, which then has the usual time of agents.
	startAllowed = 45 * time.Second
	// callAllowed includes the ten minutes that a question waits by default, and the time of
	// the call itself.
	callAllowed = 11 * time.Minute
)

// limit is a numeric setting of an entry that is raised while the entry is rewritten. A larger
// value stays.
type limit struct {
	key string
	min int // in the unit of the setting
	// optional reports that without the setting the limit is not too low. In that case it is not
	// added.
	optional bool
}

// limitsOf returns the limits of an entry of an agent.
func limitsOf(agent string, e *Entry) []limit {
	if e.limits != nil { // the adapter has set them
		return e.limits
	}
	if e.form == zedForm || e.Path[len(e.Path)-1] == clineInner { // Zed's older form has no such setting, and Cline's is one level above
		return nil
	}
	return kindOf(agent).raises
}

// originalLimit is the original of a setting that was raised.
type originalLimit struct {
	Key string `json:"key"`
	Was string `json:"was,omitempty"` // text of the value, empty if absent
	Now string `json:"now"`
}

// raised returns the limits that are too low in the entry n, with their new values. A setting
// that is not a number stays.
func raised(n edit.Node, limits []limit) []originalLimit {
	var out []originalLimit
	for _, l := range limits {
		value := n.Member(l.key)
		switch value.Kind() {
		case edit.Absent, edit.Null:
			if l.optional {
				continue
			}
		case edit.Number:
			if number, ok := numberOf(value.Raw()); !ok || number >= float64(l.min) {
				continue
			}
		default:
			continue
		}
		out = append(out, originalLimit{l.key, value.Written(), strconv.Itoa(l.min)})
	}
	return out
}

// numberOf parses a number in any syntax.
func numberOf(text string) (float64, bool) {
	text = strings.ReplaceAll(text, "_", "")
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(n), true
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// unchanged returns those limits that still have the raised value in the entry n. Another
// spelling of the same number is not a change.
func unchanged(n edit.Node, limits []originalLimit) []originalLimit {
	return slices.DeleteFunc(slices.Clone(limits), func(l originalLimit) bool {
		value := n.Member(l.Key)
		now, ok := numberOf(value.Raw())
		ours, _ := numberOf(l.Now)
		return value.Kind() != edit.Number || !ok || now != ours
	})
}

// raisedSince compares an entry with its original and returns the limits that the rewrite for
// any agent would have raised in this way.
func raisedSince(now, then edit.Node) []originalLimit {
	var out []originalLimit
	for _, k := range kinds {
		for _, was := range raised(then, k.raises) {
			known := slices.ContainsFunc(out, func(l originalLimit) bool { return l.Key == was.Key })
			if !known && now.Member(was.Key).Raw() == was.Now {
				out = append(out, was)
			}
		}
	}
	return out
}

// stillRaised returns the settings, in entries with our lines in doc, that have exactly the
// raised value in doc, and still have it in after, from which the lines were removed.
func stillRaised(doc, after *edit.Document) []string {
	var found []string
	for _, path := range linesIn(doc.Root(), nil) {
		for _, k := range kinds {
			for _, l := range k.raises {
				raised := strconv.Itoa(l.min)
				if doc.At(path).Member(l.key).Raw() == raised && after.At(path).Member(l.key).Raw() == raised {
					found = append(found, edit.Pointer(append(path, l.key)))
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
