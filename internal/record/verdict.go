package record

import (
	"maps"
	"slices"
)

// Verdicts on a call, in its records of kind call.
const (
	Forward = "forward"
	Deny    = "deny"
	Hold    = "hold" // a person is asked; a record with the verdict follows
	Park    = "park" // not executed for now: a person is asked, and the agent was told to repeat the call
)

// verdicts are the kinds of records and the verdicts that records of each have. A record without a
// verdict may be of any kind.
var verdicts = map[Kind][]string{
	KindLog: nil, KindStart: nil, KindStop: nil, KindGap: nil, KindDropped: nil, KindMessage: nil, KindMemory: nil,
	KindReload: {"in_force", "refused"},
	KindSession: {
		"opened", "reopened", "amended", "closed", "restored", "ungoverned",
		"protected", "protected again", "drifted", "repaired", "unprotected",
	},
	KindAttach:    {"attached", "reattached"},
	KindDetach:    {"left", "lost"},
	KindCall:      {Forward, Deny, Hold, Park},
	KindDecision:  {"approved", "rejected", "expired", "withdrawn"},
	KindGrant:     {"granted", "revoked", "expired", "used up", "void"},
	KindLogin:     {"logged_in", "logged_out", "ended"},
	KindPresence:  {"enrolled", "rotated", "removed", "recovered", "wrong", "locked"},
	KindHook:      {"changed"},
	KindOutcome:   {"ok", "tool_error", "protocol_error", "cancelled", "lost", "not_written", "unknown"},
	KindOrphan:    {"unanswered"},
	KindRefused:   {Deny, Forward},
	KindUnseen:    {"unjudged", "unknown"},
	KindDenied:    {Deny},
	KindFleet:     {"joined", "left", "installed", "refused", "expired"},
	KindUndo:      {"restore", "failed"},
	KindPin:       {"accepted", "held", "stranger", "withheld", "forgotten"},
	KindExtension: {"installed", "removed", "failed", "configured", "commanded"},
}

// Kinds returns all kinds of records, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(verdicts)) }

// Verdicts returns the verdicts of the records of a kind; of an empty kind, those of all records. They
// are sorted.
func Verdicts(kind Kind) []string {
	if kind != "" {
		return slices.Sorted(slices.Values(verdicts[kind]))
	}
	all := slices.Sorted(func(yield func(string) bool) {
		for _, of := range verdicts {
			for _, v := range of {
				if !yield(v) {
					return
				}
			}
		}
	})
	return slices.Compact(all)
}
