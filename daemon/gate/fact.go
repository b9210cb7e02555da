package gate

import (
	"context"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The names of the facts, as rules, records and extensions spell them; docs/facts.md says what each
// means. They are also the words of config.Fact, and a test of package facts holds both together.
const (
	FactSecret      = "secret"
	FactSecretPlace = "secret-place"
	FactPlanted     = "planted"
	FactPrompted    = "prompted"
	FactActs        = "acts"
	FactSends       = "sends"
	FactNewPlace    = "new-place"
	FactChanged     = "changed"
	FactSmelly      = "smelly" // only the word: everything else says suspicious
	FactUnlisted    = "unlisted"
	FactSteered     = "steered"
	FactOutside     = "outside"
	FactOurs        = "ours"

	// Of the agent's own tools.
	FactDestroys    = "destroys"
	FactUploads     = "uploads"
	FactInstalls    = "installs"
	FactNetworkCode = "network-code"
	FactOpaque      = "opaque"
	FactRemote      = "remote"
)

// Widens reports whether a call of server of which a fact is true may be approved together with
// other calls. What a tool of the agent itself does follows from its very arguments: with anything
// that is a reason to ask, an approval is for these arguments alone.
func Widens(server, fact string) bool {
	if server == agenthook.Server {
		return !IsWarning(fact)
	}
	return fact != FactOurs
}

// Grain is what a grant may cover of a command line of the agent's own shell that is one simple
// command: the same program, with the same verb, in a folder and below.
type Grain struct {
	Program string `json:"program,omitempty"`
	Verb    string `json:"verb,omitempty"`   // the words that say what the program does; "" if it does one thing
	Folder  string `json:"folder,omitempty"` // an absolute path in which nothing is a link
	Alone   string `json:"alone,omitempty"`  // why no other call may be approved with this one; then the rest is empty
}

// Covers reports whether a call of other does what g says, or the same below its folder.
func (g *Grain) Covers(other *Grain) bool {
	return g != nil && other != nil && g.Alone == "" && other.Alone == "" && g.Program != "" && g.Program == other.Program && g.Verb == other.Verb &&
		(other.Folder == g.Folder || strings.HasPrefix(other.Folder, g.Folder+"/"))
}

// Extent is how much a call destroys: a number of each kind of thing.
type Extent map[string]int

// IsBeyond reports whether e has more of something than other, or something that other has not.
func (e Extent) IsBeyond(other Extent) bool {
	for kind, n := range e {
		if most, known := other[kind]; !known || n > most {
			return true
		}
	}
	return false
}

// Plural counts something in a detail: "1 file", "2 files".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Fact is something true of a call.
type Fact struct {
	Name   string
	Detail string // what made it true, for a person; never the secret itself
	Member string // path of the argument, such as `headers.authorization`; may be empty
	Place  string // the mail address, host or account concerned; may be empty
	By     string // the server whose text made it true; may be empty
}

// Loss is what a call destroys in a work tree and nothing else has.
type Loss struct {
	Root  string   // the work tree: an absolute path in which nothing is a link
	Names []string // below Root; empty if they are too many, or not known
	More  bool     // it destroys more than Names
}

// Facts finds the facts of a call and remembers earlier text of its session. Implementations
// must be bounded in time and memory for any input, and safe for concurrent use.
type Facts interface {
	// Of returns the facts of c. It is called for every judged call, and attributes to the
	// agent whatever c is the first to mention. If ctx ends, it soon returns the facts found
	// so far.
	Of(ctx context.Context, c *Call) []Fact
	// Observe remembers what m says. It is called for the text of servers, and for the agent's
	// answers to them, whether the message passes without being judged or is judged, and before
	// the other side can read it.
	Observe(m *Observation)
	// Forwarded remembers that c, whose facts Of has found, was forwarded.
	Forwarded(c *Call)
	// Forget drops the memory of a session, or of an attachment without one.
	Forget(session, attachment string)
}

// Observation is text that passes between a server and an agent: a result, an error, a list,
// a request of the server, or the agent's answer to one.
type Observation struct {
	Session    string // empty outside a wrap
	Attachment string
	Server     string
	Profile    Profile   // in force for the attachment
	Side       wire.Side // the side that wrote it
	Method     string    // its method, or that of the request that it answers
	// Text is raw JSON: a line or a piece of it. A long line arrives in several observations,
	// whose pieces overlap, may begin and end inside a string, and leave out the middle of a very
	// long line. So one message may be observed more than once, and a part of it twice.
	Text    []byte
	Missing uint64 // bytes of the line that are in no piece
}
