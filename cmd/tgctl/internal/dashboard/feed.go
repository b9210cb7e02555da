package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	keptCalls     = 300 // newest calls that are kept, and at most sent at once
	sentQuestions = 100 // waiting questions that are sent, the oldest first

	countedRecords = 100_000        // newest records that are counted at the start
	countedTime    = 24 * time.Hour // counts are of this last time
	countedNames   = 1_000          // names beyond these are counted together
	sentNames      = 12             // the most frequent names that are sent

	retryAfter = time.Second // for another connection to the audit log

	shortArguments = 160 // columns of a question's arguments in the list
)

// feed is what the page shows as it happens: the waiting questions, the newest calls, and counts. It keeps a
// bounded number of each, and nothing for a reader: each reader asks what is new since it last looked, so a
// slow one misses calls and makes nobody wait. Its methods are safe for concurrent use.
type feed struct {
	now func() time.Time

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at each change
	version   uint64        // of all but calls
	online    bool          // connected to the daemon
	lost      display.Safe  // why not
	unread    display.Safe  // why the audit log can't be read
	questions map[string]*approval.Row
	reader    *calls.Reader
	ends      map[*calls.Call]calls.End // how the calls that the reader follows were counted
	calls     []call                    // ring of what changed: number n is at n modulo keptCalls
	count     uint64                    // number of changes ever
	hours     map[int64]*tally
	agents    map[display.Safe]*tally
	servers   map[display.Safe]*tally
	tools     map[display.Safe]*tally
}

// call is one line of the stream: a call as far as it has come.
type call struct {
	First  uint64       `json:"first"` // number of its first record; it comes again with each change
	Seq    uint64       `json:"seq"`   // of the record that has its arguments
	Time   int64        `json:"time"`  // Unix milliseconds
	End    display.Safe `json:"end"`
	Tone   string       `json:"tone"`
	Agent  display.Safe `json:"agent"`
	Server display.Safe `json:"server"`
	What   display.Safe `json:"what"`
	Why    display.Safe `json:"why"`
}

// question is a waiting question in the list.
type question struct {
	ID      display.Safe `json:"id"`
	Subject string       `json:"subject"`
	Agent   display.Safe `json:"agent"`
	Server  display.Safe `json:"server"`
	Call    display.Safe `json:"call"`
	Why     display.Safe `json:"why"`
	Danger  display.Safe `json:"danger"`
	Short   display.Safe `json:"short"`
	MovedOn bool         `json:"moved_on"` // its agent waits no longer
	Created int64        `json:"created"`
	Expires int64        `json:"expires"`
	Grave   bool         `json:"grave"`
}

// tally counts calls by their end: forwarded, held, denied.
type tally struct {
	Calls calls.Tally `json:"calls"`
}

// named is the tally of a name.
type named struct {
	Name display.Safe `json:"name"`
	*tally
}

type hour struct {
	Start int64 `json:"start"` // Unix milliseconds
	*tally
}

// update is what a reader gets. A member that is nil has not changed.
type update struct {
	Now       int64        `json:"now"` // Unix milliseconds
	Online    bool         `json:"online"`
	Lost      display.Safe `json:"lost"`
	Unread    display.Safe `json:"unread"`              // why there are no calls
	Questions *[]question  `json:"questions,omitempty"` // oldest first
	More      int          `json:"more"`                // waiting questions that are not sent
	Calls     []call       `json:"calls,omitempty"`     // oldest first
	Missed    uint64       `json:"missed"`              // calls before these that were not sent
	Counts    *counts      `json:"counts,omitempty"`
}

type counts struct {
	Hours   []hour  `json:"hours"`
	Agents  []named `json:"agents"`
	Servers []named `json:"servers"`
	Tools   []named `json:"tools"`
}

// position is how far a reader has read.
type position struct {
	version uint64
	calls   uint64
	counted time.Time
}

func newFeed(now func() time.Time) *feed {
	f := &feed{
		now: now, changed: make(chan struct{}), version: 1, questions: map[string]*approval.Row{}, ends: map[*calls.Call]calls.End{}, calls: make([]call, keptCalls),
		hours: map[int64]*tally{}, agents: map[display.Safe]*tally{}, servers: map[display.Safe]*tally{}, tools: map[display.Safe]*tally{},
	}
	f.reader = calls.NewReader(func(c *calls.Call) { delete(f.ends, c) })
	return f
}

// touch wakes the readers. f.mu must be held.
func (f *feed) touch() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// watch keeps the waiting questions until ctx ends.
func (f *feed) watch(ctx context.Context, c inbox.Daemon) {
	for e := range inbox.Watch(ctx, c) {
		f.mu.Lock()
		switch e.Kind {
		case inbox.Connected:
			f.online, f.lost = true, ""
		case inbox.Lost:
			f.online, f.lost = false, approval.Clipped(display.Text(e.Err.Error()))
		case inbox.Open:
			f.questions[e.Question.GetId()] = approval.NewRow(e.Question)
		case inbox.Ended:
			delete(f.questions, e.Question.GetId())
		}
		f.version++
		f.touch()
		f.mu.Unlock()
	}
}

// follow reads the audit log until ctx ends: its end at first, then what is added.
func (f *feed) follow(ctx context.Context, c *client.Client) {
	q := &pb.AuditQuery{Last: countedRecords, Since: timestamppb.New(f.now().Add(-countedTime)), Follow: true}
	for ctx.Err() == nil {
		for r, err := range c.ReadAudit(ctx, q) {
			f.setUnread(err)
			if err != nil {
				break
			}
			q = &pb.AuditQuery{From: r.GetSeq() + 1, Follow: true}
			if rec, err := record.Parse(r.GetLine()); err == nil {
				f.add(&rec)
			}
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

// setUnread notes why the audit log can't be read; nil if it can.
func (f *feed) setUnread(err error) {
	why := display.Safe("")
	if err != nil {
		why = approval.Clipped(display.Text(err.Error()))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unread != why {
		f.unread = why
		f.touch()
	}
}

// add takes the next record.
func (f *feed) add(rec *record.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.reader.Add(rec)
	if c == nil {
		return
	}
	end := audit.EndOf(c, f.now())
	line := call{
		First: c.First, Seq: c.Seq, Time: c.Time.UnixMilli(), End: approval.Clipped(end), Tone: toneWords[audit.EndTone(end)],
		Agent: approval.Clipped(display.Name(c.Agent)), Server: approval.Clipped(display.Name(c.Server)), What: approval.Clipped(ui.CallName(c.Method, c.Tool)),
		Why: approval.Clipped(ui.Join(ui.NonEmpty(display.Name(cmp.Or(c.Grant, c.Approval)), display.Text(c.Reason)), ": ")),
	}
	f.calls[f.count%keptCalls] = line
	f.count++
	if before, counted := f.ends[c]; !counted || before != c.End() {
		tool := ui.Join(ui.NonEmpty(line.Server, line.What), " ")
		for _, t := range []*tally{f.hour(c.Time), of(f.agents, line.Agent), of(f.servers, line.Server), of(f.tools, tool)} {
			if counted && t.Calls[before] > 0 { // an hour that was dropped began anew
				t.Calls[before]--
			}
			t.Calls[c.End()]++
		}
		f.ends[c] = c.End()
	}
	f.touch()
}

// hour returns the tally of the hour of t, and drops those that are too old.
func (f *feed) hour(t time.Time) *tally {
	n := t.Unix() / 3600
	if f.hours[n] == nil {
		oldest := f.now().Add(-countedTime).Unix() / 3600
		maps.DeleteFunc(f.hours, func(at int64, _ *tally) bool { return at < oldest })
		f.hours[n] = &tally{}
	}
	return f.hours[n]
}

// of returns the tally of a name.
func of(names map[display.Safe]*tally, name display.Safe) *tally {
	name = cmp.Or(name, "(none)")
	if names[name] == nil && len(names) >= countedNames {
		name = "(others)"
	}
	if names[name] == nil {
		names[name] = &tally{}
	}
	return names[name]
}

// since returns what is new for a reader that has read up to p, and moves p; and what is closed at the next
// change. Counts are sent every second at most.
func (f *feed) since(p *position) (*update, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := &update{Now: f.now().UnixMilli(), Online: f.online, Lost: f.lost, Unread: f.unread, More: max(0, len(f.questions)-sentQuestions)}
	if p.version != f.version {
		p.version = f.version
		all := f.waiting()
		u.Questions = &all
	}
	first := max(p.calls, f.count-min(f.count, keptCalls))
	u.Missed = first - p.calls
	for n := first; n < f.count; n++ {
		u.Calls = append(u.Calls, f.calls[n%keptCalls])
	}
	p.calls = f.count
	if now := time.Now(); len(u.Calls) > 0 && now.Sub(p.counted) >= time.Second || p.counted.IsZero() {
		p.counted = now
		u.Counts = f.counts()
	}
	return u, f.changed
}

// rank puts questions whose agents wait no longer behind the others.
func rank(r *approval.Row) int {
	if r.MovedOn {
		return 1
	}
	return 0
}

// waiting returns the questions that are sent.
func (f *feed) waiting() []question {
	rows := slices.SortedFunc(maps.Values(f.questions), func(a, b *approval.Row) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return ui.Map(rows[:min(len(rows), sentQuestions)], func(r *approval.Row) question {
		short := r.Short
		if r.Params != nil {
			short = display.JSONLine(r.Params, shortArguments, "")
		}
		return question{
			ID: display.Name(r.ID), Subject: subjectText(r.Subject), Agent: r.Agent, Server: r.Server, Call: r.Call, Why: r.Why, Short: short,
			Created: r.Created.UnixMilli(), Expires: r.Expires.UnixMilli(), Grave: r.Grave, Danger: r.Danger, MovedOn: r.MovedOn,
		}
	})
}

// counts returns the counts of each of the last hours, and those of the most frequent names.
func (f *feed) counts() *counts {
	c := &counts{Agents: most(f.agents), Servers: most(f.servers), Tools: most(f.tools)}
	last := f.now().Unix() / 3600
	for n := last - int64(countedTime/time.Hour) + 1; n <= last; n++ {
		c.Hours = append(c.Hours, hour{n * 3600_000, copied(f.hours[n])})
	}
	return c
}

func copied(t *tally) *tally {
	if t == nil {
		return &tally{}
	}
	own := *t
	return &own
}

// most returns the most frequent names.
func most(names map[display.Safe]*tally) []named {
	keys := slices.SortedFunc(maps.Keys(names), func(a, b display.Safe) int {
		return cmp.Or(cmp.Compare(names[b].Calls.Total(), names[a].Calls.Total()), cmp.Compare(a, b))
	})
	return ui.Map(keys[:min(len(keys), sentNames)], func(name display.Safe) named { return named{name, copied(names[name])} })
}
