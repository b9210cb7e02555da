package scan

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/beneath"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

type (
	request = pb.ExplainRequest
	answer  = pb.Explanation
	rawJSON = json.RawMessage
)

// What is read of transcripts, whose authors are agents and models: so much, and no more.
const (
	maxListed  = 1 << 16          // files and folders that are listed for an agent
	maxRead    = 4 << 30          // bytes of transcripts
	maxTime    = 10 * time.Minute // for all transcripts
	maxKept    = 128 << 20        // bytes that are kept of one conversation until it was judged
	maxReports = 1 << 17          // reports of one conversation
	maxCalls   = 1 << 20          // calls of all conversations
	maxResult  = 256 << 10        // bytes of a result, as of one that a hook reports
)

// conversation is a conversation of an agent with its subagents.
type conversation struct {
	contract *agenthook.Contract
	folder   string // of the agent's transcripts
	name     string // path of its transcript
	files    []file // latest last
	written  time.Time
}

type file struct {
	path string
	size int64
}

// replay judges the calls of all conversations.
func (s *scan) replay(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, errTooLong)
	defer cancel()
	s.summary = summary{Kind: "summary", Since: s.since.UTC(), ByAgent: map[string]int{}, Unread: s.summary.Unread}
	all, total := s.conversations(ctx)
	p := player{scan: s, seen: map[[16]byte]bool{}, total: max(total, 1)}
	for i := range all {
		if err := p.play(ctx, &all[i]); err != nil {
			if !errors.Is(err, errTooLong) && !errors.Is(err, errTooMuch) {
				return err
			}
			s.unread("%d of %d conversations, the older ones: %v", len(all)-i, len(all), err)
			break
		}
	}
	return nil
}

var (
	errTooLong = fmt.Errorf("reading took longer than %v", maxTime)
	errTooMuch = errors.New("there is more than is read")
)

// conversations lists the conversations that were written to since s.since, newest first, and how
// long they are together.
func (s *scan) conversations(ctx context.Context) (all []conversation, total int64) {
	for _, agent := range withTranscripts() {
		if !s.isWanted(agent) {
			continue
		}
		c := agenthook.Of(agent)
		home := filepath.Join(s.env.Home, c.Transcript.Home)
		if other := s.Getenv(c.Transcript.Variable); filepath.IsAbs(other) {
			home = other
		}
		folder := filepath.Join(home, c.Transcript.Folder)
		found, err := s.listed(ctx, c, folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.unread("transcripts of %s: %v", agent, err)
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(x, y conversation) int { return y.written.Compare(x.written) })
	for _, c := range all {
		for _, f := range c.files {
			total += f.size
		}
	}
	return all, total
}

// listed lists the conversations in the folder of an agent.
func (s *scan) listed(ctx context.Context, c *agenthook.Contract, folder string) ([]conversation, error) {
	top, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	dir, err := beneath.Open(top)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	found := map[string]*conversation{}
	err = transcript.Walk(ctx, dir, ".", maxListed, c.Transcript.MayHave, func(name string, info beneath.Info) bool {
		written := time.Unix(info.Mtime.Unix())
		if !info.IsRegular() || !c.Transcript.Is(name) || written.Before(s.since) {
			return true
		}
		of := c.Transcript.Conversation(name)
		one := found[of]
		if one == nil {
			one = &conversation{contract: c, folder: top, name: filepath.Join(top, of)}
			found[of] = one
		}
		if written.After(one.written) {
			one.written = written
		}
		if len(one.files) <= transcript.MaxSubagents {
			one.files = append(one.files, file{filepath.Join(top, name), info.Size})
		}
		return true
	})
	var all []conversation
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all, err
}

// player judges conversations, one after the other.
type player struct {
	*scan
	seen  map[[16]byte]bool // calls of all conversations: one that is continued may repeat what was before
	read  int64             // bytes
	total int64             // bytes
}

// told is the reports of one conversation.
type told struct {
	reports []agenthook.Report
	refused map[string]bool // ids of uses that were refused by the agent itself
	kept    int
	full    bool
}

// play judges the calls of a conversation.
func (p *player) play(ctx context.Context, c *conversation) error {
	t := told{refused: map[string]bool{}}
	for _, f := range c.files {
		if p.read += f.size; p.read > maxRead || len(p.seen) >= maxCalls {
			return errTooMuch
		}
		cwd := ""
		r, err := transcript.Read(ctx, c.folder, f.path, func(line []byte) error {
			reports, err := c.contract.Reports(line)
			for _, report := range reports {
				cwd = cmp.Or(report.Cwd, cwd)
				report.Cwd = cwd
				t.add(report, c.written)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			p.unread("%s: %v", f.path, err)
		case r.Cut:
			p.unread("%s: only its last %d MB were read", f.path, transcript.MaxTail>>20)
		case r.Garbage > 0:
			p.unread("%s: %s not understood", f.path, ui.Plural(r.Garbage, "line", "lines"))
		}
	}
	if t.full {
		p.unread("%s: it has more than is kept", c.name)
	}
	slices.SortStableFunc(t.reports, func(x, y agenthook.Report) int { return x.At.Compare(y.At) })
	return p.judge(ctx, c, &t)
}

// add keeps a report. One without a time was written when the conversation was.
func (t *told) add(r agenthook.Report, written time.Time) {
	switch {
	case r.Kind == agenthook.After && r.Refused:
		t.refused[r.ID] = true
		return
	case r.Kind != agenthook.Before && r.Kind != agenthook.After:
		return
	}
	if t.full = t.full || t.kept > maxKept || len(t.reports) >= maxReports; t.full {
		return
	}
	if r.At.IsZero() {
		r.At = written
	}
	// The line that they are in is not kept.
	r.Input, r.Result = bytes.Clone(r.Input), bytes.Clone(r.Result[:min(len(r.Result), maxResult)])
	t.kept += len(r.Input) + len(r.Result)
	t.reports = append(t.reports, r)
}

// judge judges the calls in order, and has the session remember their results.
func (p *player) judge(ctx context.Context, c *conversation, t *told) error {
	made := map[string]*request{} // calls by the agent's id
	project, any := "", false
	for i := range t.reports {
		r := &t.reports[i]
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t.refused[r.ID] {
			continue
		}
		project = cmp.Or(project, r.Cwd)
		if r.Kind == agenthook.After {
			if err := p.result(c, r, made[r.ID]); err != nil {
				return err
			}
			continue
		}
		q, err := requestOf(c, r, project)
		if err != nil { // a hook would have denied it
			p.unread("%s: a call of %s: %v", c.name, r.Tool, err)
			continue
		}
		made[r.ID] = q
		then := func(*answer) {}
		if !r.At.Before(p.since) && p.isNew(r) {
			any = true
			part := float64(p.read) / float64(p.total)
			then = func(a *answer) { p.count(c, r, q, a, part) }
		}
		if err := p.gate.ask(q, then); err != nil {
			return err
		}
	}
	if any {
		p.summary.Conversations++
	}
	return nil
}

// isNew reports whether a call was in no conversation before, and notes it.
func (p *player) isNew(r *agenthook.Report) bool {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q", r.ID, r.At.UnixNano(), r.Tool, r.Input))
	id := [16]byte(sum[:])
	was := p.seen[id]
	p.seen[id] = true
	return !was
}

// requestOf returns the call that a report is about, as the gate gets it: the agent's own as from
// its hook, and one of an MCP server as of that server.
func requestOf(c *conversation, r *agenthook.Report, project string) (*request, error) {
	e, err := r.Reported()
	if err != nil {
		return nil, err
	}
	made, err := c.contract.Call(e)
	if err != nil {
		return nil, err
	}
	q := &request{Server: agenthook.Server, Subject: made.Tool, Arguments: made.Arguments, Agent: c.contract.Agent, Session: c.name, Project: project}
	if made.Tool == agenthook.MCP && made.Server != "" && made.Server != agenthook.Server {
		q.Server, q.Subject, q.Arguments = made.Server, made.MCPTool, e.Input
	}
	return q, nil
}

// result has the session remember a result. A hook is told those of servers' tools as well.
func (p *player) result(c *conversation, r *agenthook.Report, of *request) error {
	if of == nil || len(r.Result) == 0 {
		return nil
	}
	text := string(r.Result)
	if of.Server != agenthook.Server {
		if err := p.gate.ask(with(of, plain(r.Result)), func(*answer) {}); err != nil {
			return err
		}
		of = &request{Server: agenthook.Server, Agent: of.Agent, Session: of.Session, Project: of.Project}
	}
	return p.gate.ask(with(of, text), func(*answer) {})
}

// with returns the question with the text of its result.
func with(q *request, text string) *request {
	return &request{
		Server: q.Server, Subject: q.Subject, Arguments: q.Arguments, Agent: q.Agent, Session: q.Session, Project: q.Project,
		Result: append(wire.AppendQuote([]byte(`{"content":[{"type":"text","text":`), strings.ToValidUTF8(text, "")), `}]}`...),
	}
}

// plain returns the text of a result: what it is, or has in blocks.
func plain(result []byte) string {
	if text, err := rawjson.Text(result); err == nil {
		return text
	}
	blocks, err := rawjson.Elements(result)
	if err != nil {
		return string(result)
	}
	var texts []string
	for _, raw := range blocks {
		if block := rawjson.Read(raw); block.Err() == nil {
			texts = append(texts, block.OptionalText("text"))
		}
	}
	return strings.Join(texts, "\n")
}

// count counts a call, and lists it if there is something to say about it. part is how much was read. It
// is called with the answers, by the goroutine that receives them.
func (p *player) count(c *conversation, r *agenthook.Report, q *request, a *answer, part float64) {
	s := &p.summary
	s.Calls++
	p.progress("reading transcripts  " + ui.Bar(part) + "  " + ui.Plural(s.Calls, "call", "calls"))
	s.ByAgent[c.contract.Agent]++
	one := call{
		"call", c.contract.Agent, r.At.UTC(), q.GetProject(), c.name, r.ID, q.GetServer(), q.GetSubject(),
		a.GetPast().GetShown(), a.GetVerdict(), a.GetPast().GetUnclear(), a.GetPast().GetPerhaps(), a.GetReason(), a.GetRule(), []string{},
	}
	if a.GetError() != "" {
		one.Verdict, one.Reason = "deny", a.GetError()
	}
	for _, f := range a.GetFacts() {
		if !slices.Contains(one.Facts, f.GetName()) {
			one.Facts = append(one.Facts, f.GetName())
		}
	}
	switch {
	case one.Verdict == "deny":
		s.Denied++
	case one.Verdict == "ask":
		s.Asked++
	case one.Perhaps != "":
		s.Unclear++
	case !p.all:
		return
	}
	p.calls = append(p.calls, one)
}
