package hook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
)

// Agents skip their hooks without a word: a project's file turns them off, or the agent has a bug.
// So what an agent has reported is compared with its own transcript, once a conversation or the
// agent has ended. A transcript is a claim as everything else that an agent says: it can add a
// warning, and clears none.

const (
	// maxJudged is how many calls of an agent are remembered, and how many that were not reported.
	maxJudged = 1 << 14
	// maxTranscripts is how many transcripts of an agent are compared.
	maxTranscripts = 16
	// compareTimeout is how long that may take.
	compareTimeout = 10 * time.Second
	// maxShown is how many calls are named, and maxCommand how much of each, in runes.
	maxShown, maxCommand = 5, 80
	// maxWhat is how much is kept of what a call is about, in bytes, until secrets are removed.
	maxWhat = 16 << 10
)

var errTooMany = fmt.Errorf("more than %d calls", maxJudged)

// digest stands for the id of a call, which has any length.
type digest [16]byte

func digestOf(id string) digest {
	sum := sha256.Sum256([]byte(id))
	return digest(sum[:16])
}

// known is a set of calls that agents of one kind have reported, or that were found otherwise. It
// keeps at least the latest maxJudged, and is safe for concurrent use.
type known struct {
	mu          sync.Mutex // guards the fields below
	latest, old map[digest]bool
	// unmatched counts events without ids, by what they are about, for which no use was found in a
	// transcript yet. older counts those before them.
	unmatched, older map[digest]int
}

func newKnown() *known { return &known{latest: map[digest]bool{}, unmatched: map[digest]int{}} }

// addUnmatched remembers an event without an id.
func (k *known) addUnmatched(about digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unmatched) >= maxJudged {
		k.unmatched, k.older = map[digest]int{}, k.unmatched
	}
	k.unmatched[about]++
}

// matches reports whether the use d of a transcript is known, or belongs to an event without an id
// that is about the same. No other use can belong to that event then.
func (k *known) matches(d, about digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.latest[d] || k.old[d] {
		return true
	}
	for _, of := range []map[digest]int{k.older, k.unmatched} {
		switch of[about] {
		case 0:
			continue
		case 1:
			delete(of, about)
		default:
			of[about]--
		}
		k.insert(d)
		return true
	}
	return false
}

// add adds d and reports whether it is new.
func (k *known) add(d digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.latest[d] {
		return false
	}
	isNew := !k.old[d]
	k.insert(d)
	return isNew
}

func (k *known) insert(d digest) {
	if len(k.latest) >= maxJudged {
		k.latest, k.old = map[digest]bool{}, k.latest
	}
	k.latest[d] = true
}

// aboutOf stands for what a use in a conversation is about. name is that of the transcript.
func aboutOf(name string, u agenthook.Use) digest {
	return digestOf(strings.Join([]string{name, u.Tool, u.Server, u.What}, "\x00"))
}

// ledger is what an agent has reported to its hooks. It is safe for concurrent use.
type ledger struct {
	contract *agenthook.Contract
	folder   string    // of the agent's transcripts
	since    time.Time // older lines of a transcript are from before the agent, or this daemon, began
	kind     *known    // what all agents of the kind have reported

	mu       sync.Mutex // guards the fields below
	heard    bool       // the agent has reported something
	judged   map[digest]bool
	reported map[digest]bool // calls that were found before
	full     bool            // a call or transcript did not find room
	paths    []string        // of transcripts
	sessions map[digest]bool // conversations, if they share a transcript
	problem  bool            // it was said that something may not be seen
}

func newLedger(c *agenthook.Contract, folder string, since time.Time, kind *known) *ledger {
	return &ledger{contract: c, folder: folder, since: since, kind: kind, judged: map[digest]bool{}, reported: map[digest]bool{}, sessions: map[digest]bool{}}
}

// note remembers an event. A canary says nothing about the agent, which did not report it.
func (l *ledger) note(e *agenthook.Event) {
	if l.contract.Transcript == nil || e.IsCanary(record.CanaryCommand) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = true
	at := l.contract.Transcript.Of(e, l.folder)
	switch {
	case e.Kind != agenthook.Before:
	case e.ID != "":
		l.full = !add(l.judged, digestOf(e.ID)) || l.full
		l.kind.add(digestOf(e.ID))
	case l.contract.Transcript.NoIDs:
		l.kind.addUnmatched(aboutOf(l.name(at), l.contract.Use(e)))
	}
	if l.contract.Transcript.Table != nil {
		l.full = !add(l.sessions, digestOf(e.Session)) || l.full
	}
	switch {
	case at == "" || slices.Contains(l.paths, at):
	case len(l.paths) < maxTranscripts && len(at) <= transcript.MaxPath:
		l.paths = append(l.paths, at)
	default:
		l.full = true
	}
}

// name returns the path of a transcript below the folder of all, or path if it is not there.
func (l *ledger) name(path string) string {
	if name, below := strings.CutPrefix(path, l.folder+"/"); below {
		return name // as almost always, so that no event has the folder looked up
	}
	name, _, err := transcript.NameIn(l.folder, path)
	if err != nil {
		return path
	}
	return name
}

// add adds d to a set of at most maxJudged, and reports whether it is in it.
func add(set map[digest]bool, d digest) bool {
	if len(set) < maxJudged {
		set[d] = true
	}
	return set[d]
}

// compare reads the transcripts. It returns the calls in them that no judged event was about,
// each once, and why there may be others; that is said once. governed reports whether a server's
// calls pass the gate: they are judged there.
func (l *ledger) compare(ctx context.Context, governed func(server string) bool) (calls []agenthook.Use, problem string) {
	l.mu.Lock()
	heard, paths := l.heard, slices.Clone(l.paths)
	l.mu.Unlock()
	if !heard {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	if len(paths) == 0 {
		paths = []string{l.folder + "/unknown"} // which is not found
	}
	for _, path := range paths {
		if below := l.contract.Transcript.Below(path); below != "" {
			subagents, err := transcript.Below(ctx, l.folder, below, l.since)
			paths = append(paths, subagents...)
			if len(subagents) > 0 || !errors.Is(err, fs.ErrNotExist) {
				problem = cmp.Or(problem, problemOf(transcript.Reading{}, err))
			}
		}
	}
	for _, path := range paths {
		t, r, err := l.read(ctx, path, governed)
		if l.contract.Transcript.Table != nil {
			if err == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(t.sessions)), l.has) {
				err = fs.ErrNotExist
			}
			t.uses = slices.DeleteFunc(t.uses, func(u agenthook.Use) bool { return !l.has(digestOf(u.Session)) })
		}
		calls = append(calls, l.unseen(t.uses, t.refused)...)
		problem = cmp.Or(problem, problemOf(r, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		problem = cmp.Or(problem, "too many calls to compare all with the transcript: some that no hook reported may not be seen")
	}
	if l.problem {
		problem = ""
	}
	l.problem = l.problem || problem != ""
	return calls, problem
}

// told is what a transcript says about uses of tools.
type told struct {
	uses           []agenthook.Use
	refused, ended map[digest]bool
	sessions       map[digest]bool // if conversations share the transcript
}

// has reports whether the agent has reported something of a conversation.
func (l *ledger) has(session digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[session]
}

// read reads a transcript. It leaves out calls of servers that pass the gate, and what a person did.
func (l *ledger) read(ctx context.Context, path string, governed func(server string) bool) (told, transcript.Reading, error) {
	t := told{refused: map[digest]bool{}, ended: map[digest]bool{}, sessions: map[digest]bool{}}
	name := l.name(path)
	begun := map[digest]bool{}
	row := func(session, message string, line []byte) error {
		found, err := l.contract.Uses(line, l.since)
		add(t.sessions, digestOf(session))
		for _, u := range found {
			switch u.Session, u.Message = session, message; {
			case u.Begun:
				add(begun, digestOf(message))
			case u.Refused:
				add(t.refused, digestOf(u.ID))
			case u.Ended:
				add(t.ended, digestOf(u.ID))
			case u.Tool == agenthook.MCP && governed(u.Server):
			case l.contract.Transcript.NoIDs && l.kind.matches(digestOf(u.ID), aboutOf(name, u)):
			case len(t.uses) > maxJudged:
				return errTooMany
			default:
				u.What = strings.Clone(u.What[:min(len(u.What), maxWhat)])
				t.uses = append(t.uses, u)
			}
		}
		return err
	}
	table := l.contract.Transcript.Table
	if table == nil {
		r, err := transcript.Read(ctx, l.folder, path, func(line []byte) error { return row("", "", line) })
		return t, r, err
	}
	r, err := readDatabase(ctx, l.folder, path, table, l.since, row)
	t.uses = slices.DeleteFunc(t.uses, func(u agenthook.Use) bool { return !begun[digestOf(u.Message)] })
	slices.Reverse(t.uses) // the latest was read first
	return t, r, err
}

// missed returns the uses in a transcript that no agent of the kind has reported, each once. With
// onlyEnded it leaves out those that have no result yet: they may wait for their hook. others reports whether
// a conversation in a transcript that is shared is left to somebody else.
func (l *ledger) missed(ctx context.Context, path string, governed func(server string) bool, onlyEnded bool, others func(session digest) bool) []agenthook.Use {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	t, _, _ := l.read(ctx, path, governed) // what can't be read says nothing
	return abridged(slices.DeleteFunc(t.uses, func(u agenthook.Use) bool {
		d := digestOf(u.ID)
		return others(digestOf(u.Session)) || t.refused[d] || onlyEnded && !t.ended[d] || !l.kind.add(d)
	}))
}

// abridged removes what no warning shows: what all uses but the first are about.
func abridged(uses []agenthook.Use) []agenthook.Use {
	for i := maxShown; i < len(uses); i++ {
		uses[i] = agenthook.Use{Tool: uses[i].Tool}
	}
	return uses
}

// names returns the paths below the folder of what the agent has named as its transcripts.
func (l *ledger) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, path := range l.paths {
		names = append(names, l.name(path))
	}
	return names
}

// unseen returns the uses that were not judged, and not found before.
func (l *ledger) unseen(uses []agenthook.Use, refused map[digest]bool) []agenthook.Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full { // a call that found no room would be taken for one that was not reported
		return nil
	}
	return abridged(slices.DeleteFunc(uses, func(u agenthook.Use) bool {
		d := digestOf(u.ID)
		known := l.judged[d] || refused[d] || l.reported[d]
		l.full = !known && !add(l.reported, d) || l.full
		l.kind.add(d)
		return known
	}))
}

// Unseen is a warning about what an agent may have done past its hooks.
type Unseen struct {
	At             time.Time
	Session, Agent string
	Project        string
	Since          time.Time // when the agent first reported something
	Count          int       // calls in the transcript that no hook has reported
	Calls          []string  // some of them: commands, paths and the like, shortened
	Text           string
}

// describe returns the warning about calls, of which there is at least one.
func describe(calls []agenthook.Use, redact func(string) string) Unseen {
	u := Unseen{Count: len(calls)}
	tools := map[string]int{}
	for _, call := range calls {
		tools[call.Tool]++
		if len(u.Calls) < maxShown {
			u.Calls = append(u.Calls, shortened(redact(call.What)))
		}
	}
	var counts []string
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		counts = append(counts, gate.Plural(tools[tool], tool+" call"))
	}
	u.Text = fmt.Sprintf("%s the gate never saw: `%s`", strings.Join(counts, ", "), strings.Join(u.Calls, "`, `"))
	if u.Count > len(u.Calls) {
		u.Text += ", ..."
	}
	return u
}

// shortened returns text on one line, without its end if it is long.
func shortened(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxCommand {
		runes = append(runes[:maxCommand-3], '.', '.', '.')
	}
	return string(runes)
}
