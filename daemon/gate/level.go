package gate

import "slices"

// Level is how far whoever says yes has to show that they are a person.
type Level string

const (
	// LevelUsual is Presence for a call of high risk where presence is set up, and
	// else Watch. A Ruling has it before it is known what is true of the call.
	LevelUsual Level = ""
	// LevelWatch is anybody whom no agent has started.
	LevelWatch Level = "watch"
	// LevelPresence is somebody who knows a secret that no agent has.
	LevelPresence Level = "presence"
)

// strictness orders levels: the yes that is harder to give is the greater one.
var strictness = map[Level]int{LevelWatch: 1, LevelUsual: 2, LevelPresence: 3}

// Stricter reports whether a yes at level l takes more than one at other.
func (l Level) Stricter(other Level) bool { return strictness[l] > strictness[other] }

// Proof is what somebody gives as a proof of presence: either of the two. Whoever
// checks it wipes it.
type Proof struct {
	Passphrase []byte
	Code       []byte // six digits
}

// Presence tells whether people can prove to be there.
type Presence interface {
	// Enrolled reports whether there is a secret that somebody could give. It is
	// quick and safe for concurrent use.
	Enrolled() bool
}

// Assumed stands for a Presence of which nobody knows, in a rehearsal of what is not
// in force: a workflow that requires presence asks, and no other one does.
var Assumed Presence = assumed{}

type assumed struct{}

func (assumed) Enrolled() bool { return false }

// HighRisk are the facts of a call to which only a person's own yes will do, where
// presence is set up: what would take the guard down, what carries credentials or
// reaches for them, and what was put into the agent's mind by a text that it read.
// An agent that was talked into such a call may be talked into approving it too.
var HighRisk = []string{"ours", "secret", "secret-place", "planted", "prompted"}

// notEnrolled is why a question that needs presence can't be put.
const notEnrolled = "the workflow requires presence, and nobody has set it up: tgctl presence enrol"

// settle says at which level the question that w comes to is put.
func (g *Gate) settle(w *weighed) {
	r := &w.ruling
	if r.Move != Ask {
		return
	}
	enrolled := g.Presence != nil && g.Presence.Enrolled()
	switch {
	case r.Level == LevelPresence:
		if !enrolled && g.Presence != Assumed && r.Unable == "" {
			r.Unable = notEnrolled
		}
	case r.Level == LevelUsual && enrolled && slices.ContainsFunc(w.facts, func(f Fact) bool { return slices.Contains(HighRisk, f.Name) }):
		r.Level = LevelPresence
	case r.Level == LevelUsual:
		r.Level = LevelWatch
	}
}
