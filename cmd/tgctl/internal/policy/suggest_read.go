package policy

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// suggestFacts says of each fact why no rule is suggested for calls of which it is true. A fact without a reason
// may be true of such a call; one that is missing here may not.
var suggestFacts = map[string]display.Safe{
	"destroys":     "what it destroys can't be brought back",
	"undo":         "it destroys something, of which a copy was kept",
	"no-undo":      "it destroys something that can't be copied",
	"acts":         "it deletes, executes, pays, installs or grants",
	"installs":     "it changes what the machine runs by itself",
	"network-code": "it runs what another machine sends",
	"ours":         "it names ThoughtGate's own files",
	"secret":       "it carries a secret",
	"secret-place": "it reaches for a place of secrets",
	"uploads":      "it sends files away",
	"sends":        "it sends something away",
	"new-place":    "it sends something to a new place",
	"planted":      "a server named the place",
	"prompted":     "a server told the agent to use it",
	"steered":      "a server's text was worded to steer the model",
	"changed":      "the tool's definition is not the accepted one",
	"smelly":       "the tool's definition gives orders to a model",
	"unlisted":     "the server lists no such tool",
	"outside":      "it leads out of the project",
	"opaque":       "a part of it is known only when it runs",
	"remote":       "", // true of each call of a server behind an address
}

// mayBeForwarded reports whether a rule may be suggested for calls of which a fact is true.
func mayBeForwarded(fact string) bool {
	why, known := suggestFacts[fact]
	return known && why == ""
}

// maxAsked limits how many questions are read.
const maxAsked = 50_000

// asked is what the record says of a question about calls of a tool.
type asked struct {
	id     string
	tool   toolKey
	launch string
	rule   string          // the label of the rule that asked
	facts  []string        // true of any of its calls
	args   json.RawMessage // nil if they were not recorded as they were
	seq    uint64          // number of the first record with it
	calls  int             // calls that it was about

	verdict string       // of the last decision; empty if it waits
	by      display.Safe // who gave that
	counts  bool         // a person approved it unchanged, at a terminal or with presence
}

// toolKey is a tool as an agent calls it.
type toolKey struct{ agent, server, tool string }

// shape returns which arguments the calls have, "" if that was not recorded.
func (q *asked) shape() string {
	if q.args == nil {
		return ""
	}
	members, _ := rawjson.Members(q.args) // it was read before
	names := ui.Map(members, func(m rawjson.Member) string { return m.Name })
	slices.Sort(names)
	return "{" + strings.Join(names, "\x00") + "}"
}

// readAsked reads the questions about calls of tools, in the order in which they were asked. more is whether there
// were more than are read.
func readAsked(records iter.Seq2[*pb.AuditRecord, error]) (all []*asked, more bool, err error) {
	byID := map[string]*asked{}
	seen := map[[2]any]bool{} // calls, by attachment and number
	for r, err := range records {
		if err != nil {
			return nil, false, err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil || rec.Approval == "" || rec.Method != ui.ToolCall || rec.Direction != "agent_to_server" || rec.Tool == "" ||
			rec.Kind != record.KindCall && rec.Kind != record.KindDecision {
			continue
		}
		q := byID[rec.Approval]
		if q == nil {
			if len(all) == maxAsked {
				more = true
				continue
			}
			q = &asked{id: rec.Approval, tool: toolKey{rec.Agent, rec.Server, rec.Tool}, launch: rec.Launch, seq: rec.Seq}
			byID[q.id] = q
			all = append(all, q)
		}
		if rec.Kind == record.KindDecision {
			q.verdict, q.by, q.counts = rec.Verdict, ui.Who(rec.Decider, rec.Surface, ui.You), isPersons(&rec)
			continue
		}
		if rec.Grant != "" {
			continue // a later call, which nobody was asked about
		}
		if key := [2]any{rec.Attachment, rec.Call}; !seen[key] {
			seen[key] = true
			q.calls++
		}
		q.facts = ui.Unique(append(q.facts, rec.Facts...))
		if rec.Verdict == record.Hold {
			q.rule, q.args = rec.Rule, wholeArguments(r.GetValues())
		}
	}
	return all, more, nil
}

// isPersons reports whether a decision is an approval, as it was asked, that a person gave at a terminal, as the kernel
// showed it, or with presence.
func isPersons(rec *record.Record) bool {
	atTerminal := rec.Surface == "terminal" && rec.Peer != nil && rec.Peer.TTY != ""
	return rec.Verdict == "approved" && (atTerminal || rec.Level == approval.LevelPresence) && !strings.Contains(rec.Reason, "with changed arguments, SHA-256 ")
}

// wholeArguments returns the arguments in a line of values; nil if they are not recorded, or not as they were.
func wholeArguments(line []byte) json.RawMessage {
	var v struct {
		Arguments json.RawMessage `json:"arguments"`
		Bytes     int             `json:"bytes"`
	}
	if json.Unmarshal(line, &v) != nil || len(v.Arguments) == 0 || v.Arguments[0] != '{' || len(v.Arguments) != v.Bytes {
		return nil
	}
	if _, err := rawjson.Members(v.Arguments); err != nil {
		return nil
	}
	return v.Arguments
}
