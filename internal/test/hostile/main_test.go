// Package hostile puts hostile messages to the real shim and the real daemon.
//
// A case is bytes for one end of a shim and what may come out at the other. The
// tests play the agent and the wrapped server at once, see every byte at both
// ends, and show after each case that the next good message still crosses. The
// cases are written down in the tables of this package; testdata/cases.jsonl is
// what they come to, one JSON object a line, for programs that read that. Any
// other file of the format can be played:
//
//	make hostile CASES=/path/to/cases.jsonl
package hostile

import (
	"flag"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

var (
	casesFile  = flag.String("cases", ownCases, "the case file to play")
	onlyTier   = flag.Int("tier", 2, "play cases up to this tier: 1 is wire and protocol, 2 also what hardens beyond them")
	behindEach = flag.Int("behind", 15, "play one of so many cases with each form of a server behind an address")
	copyEach   = flag.Int("copy", 15, "show of one of so many cases that a program that only copies fails it")
	update     = flag.Bool("update", false, "write testdata/cases.jsonl anew from the tables")
)

const ownCases = "testdata/cases.jsonl"

func TestMain(m *testing.M) { rig.Main(m) }

// policy is what the cases are written for: everything is forwarded but one
// tool, and each shim says which profile it wants.
const policy = `
schema: 1
profile: development
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - match: forbidden_tool
      action: deny
pins: {mode: off}
`

// have are the features of that deployment, which cases may need.
var have = []string{"deny_tool", "modern"}
