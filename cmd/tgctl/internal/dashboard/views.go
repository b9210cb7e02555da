package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/status"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/trust"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// toneWords are the tones as the page's style names them.
var toneWords = map[display.Tone]string{
	display.OK: "ok", display.Warn: "warn", display.Deny: "deny", display.Held: "held", display.Strong: "strong", display.Faint: "faint",
}

// view is a part of the page: tables as the commands print them, and lines above them.
type view struct {
	Sheet  []line  `json:"sheet"`
	Tables []table `json:"tables"`
	Lines  []toned `json:"lines"` // below
}

type table struct {
	Title string `json:"title"`
	None  string `json:"none"` // said instead of a table without rows
	Heads []head `json:"heads"`
	Rows  []row  `json:"rows"`
	Left  int    `json:"left"` // rows that are not sent
}

type head struct {
	Text  display.Safe `json:"text"`
	Right bool         `json:"right"`
}

type row struct {
	Cells  []toned `json:"cells"`
	Notes  []toned `json:"notes"`
	Revoke string  `json:"revoke,omitempty"` // id of the grant that the row is about
	Seq    uint64  `json:"seq,omitempty"`    // of the record that the row is about
}

type toned struct {
	Text display.Safe `json:"text"`
	Tone string       `json:"tone"`
}

// maxRows limits the rows of a table that are sent.
const maxRows = 1000

// tableOf converts a table of a command.
func tableOf(title, none string, t *display.Table) table {
	out := table{Title: title, None: none, Left: max(0, len(t.Rows)-maxRows)}
	for _, c := range t.Columns {
		out.Heads = append(out.Heads, head{c.Head, c.Right})
	}
	for _, r := range t.Rows[:len(t.Rows)-out.Left] {
		to := row{}
		for i, cell := range r.Cells {
			tone := display.Plain
			if t.Columns[i].Tone != nil {
				tone = t.Columns[i].Tone(cell)
			}
			to.Cells = append(to.Cells, toned{cell, toneWords[tone]})
		}
		for _, n := range r.Notes {
			to.Notes = append(to.Notes, toned{n.Text, toneWords[n.Tone]})
		}
		out.Rows = append(out.Rows, to)
	}
	return out
}

// api is what is behind the door.
func (s *server) api() http.Handler {
	mux := http.NewServeMux()
	within := func(limit time.Duration, pattern string, do func(context.Context, *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit + headerTimeout)) // that of the request ends sooner
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			reply(ctx, w, r, do)
		})
	}
	handle := func(pattern string, do func(context.Context, *http.Request) (any, error)) {
		within(replyTime, pattern, do)
	}
	mux.HandleFunc("GET /api/stream", s.stream)
	handle("GET /api/question", s.question)
	handle("POST /api/answer", s.answer)
	handle("POST /api/revoke", s.revoke)
	handle("GET /api/sessions", s.sessions)
	handle("GET /api/grants", s.grants)
	handle("GET /api/servers", s.servers)
	handle("GET /api/policy", s.policy)
	handle("GET /api/search", s.search)
	handle("GET /api/record", s.record)
	handle("GET /api/config", s.config)
	within(backtestTime, "POST /api/backtest", s.backtest)
	return mux
}

// How long a reply may take.
const (
	replyTime    = 30 * time.Second
	backtestTime = 10 * time.Minute
)

// reply sends what do returns as JSON; of an error only its text.
func reply(ctx context.Context, w http.ResponseWriter, r *http.Request, do func(context.Context, *http.Request) (any, error)) {
	out, err := do(ctx, r)
	code := http.StatusOK
	if err != nil {
		text := err.Error()
		if hint, ok := errors.AsType[*ui.HintError](err); ok {
			text += ". " + hint.Hint
		}
		out, code = struct {
			Error display.Safe `json:"error"`
		}{display.Fit(display.Text(text), 1000)}, http.StatusConflict
	}
	text, err := json.Marshal(out)
	if err != nil {
		http.Error(w, "the answer can't be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a browser that has left doesn't want it
}

func (s *server) sessions(ctx context.Context, _ *http.Request) (any, error) {
	sessions, err := s.client.ListSessions(ctx)
	if err != nil {
		return nil, err
	}
	return view{Tables: []table{tableOf("", "No wrapped or protected agent is running. To wrap one: tgctl wrap -- COMMAND", status.SessionsTable(s.app.App, sessions))}}, nil
}

func (s *server) grants(ctx context.Context, _ *http.Request) (any, error) {
	grants, err := s.client.ListGrants(ctx, true)
	if err != nil {
		return nil, err
	}
	t := tableOf("", "No grant was given.", inbox.GrantsTable(s.app.App, grants))
	for i := range t.Rows {
		if grants[i].GetEnded() == nil {
			t.Rows[i].Revoke = grants[i].GetId()
		}
	}
	return view{Tables: []table{t}}, nil
}

func (s *server) servers(ctx context.Context, _ *http.Request) (any, error) {
	servers, err := s.client.ListServers(ctx)
	if err != nil {
		return nil, err
	}
	starts, err := s.client.ListStarts(ctx)
	if err != nil {
		return nil, err
	}
	pins, err := s.client.ListPins(ctx, "")
	if err != nil {
		return nil, err
	}
	v := view{Tables: []table{tableOf("Servers", "No server has listed its tools yet.", trust.ServersTable(s.app.App, servers))}}
	if len(starts) > 0 {
		v.Tables = append(v.Tables, tableOf("Servers of projects", "", trust.StartsTable(s.app.App, starts)))
	}
	v.Tables = append(v.Tables, tableOf("Tools, prompts and templates", "", trust.ToolsTable(s.app.App, pins)))
	return v, nil
}

func (s *server) policy(ctx context.Context, _ *http.Request) (any, error) {
	set, err := s.client.PolicySet(ctx)
	if err != nil {
		return nil, err
	}
	sheet := &ui.Sheet{}
	policy.AddSet(sheet, set)
	v := view{Sheet: linesOf(sheet)}
	for _, t := range policy.DetailTables(set) {
		v.Tables = append(v.Tables, tableOf("", "", t))
	}
	return v, nil
}

const (
	searchedRecords = 50_000 // newest records of a search that are looked at
	foundRecords    = 200    // newest records that are sent
)

// search looks in the record: by server and tool (globs), verdict, kind, session and time as tgctl audit
// list does, and by a text that the line contains.
func (s *server) search(ctx context.Context, r *http.Request) (any, error) {
	q, err := audit.Query(s.app.App, r.FormValue)
	if err != nil {
		return nil, err
	}
	q.Last = searchedRecords
	text := bytes.ToLower([]byte(r.FormValue("text")))
	if len(text) == 0 {
		q.Last = foundRecords
	}
	t, left := audit.RecordsTable(), 0
	var seqs []uint64
	for rec, err := range s.client.ReadAudit(ctx, q) {
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(bytes.ToLower(rec.GetLine()), text) {
			continue
		}
		if len(t.Rows) == foundRecords {
			t.Rows, seqs = append(t.Rows[:0], t.Rows[1:]...), append(seqs[:0], seqs[1:]...)
			left++
		}
		t.Add(audit.RecordRow(s.app.App, rec)...)
		seqs = append(seqs, rec.GetSeq())
	}
	out := tableOf("", "No record matches.", t)
	for i := range out.Rows {
		out.Rows[i].Seq = seqs[i]
	}
	out.Left = left
	return view{Tables: []table{out}}, nil
}

// record returns one record in full.
func (s *server) record(ctx context.Context, r *http.Request) (any, error) {
	seq, err := strconv.ParseUint(r.FormValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		return nil, fmt.Errorf("invalid record number %q", r.FormValue("seq"))
	}
	for rec, err := range s.client.ReadAudit(ctx, &pb.AuditQuery{From: seq}) {
		if err != nil {
			return nil, err
		}
		if rec.GetSeq() != seq {
			break
		}
		sheet, err := audit.RecordSheet(s.app.App, rec)
		if err != nil {
			return nil, err
		}
		v := view{Sheet: linesOf(sheet)}
		values := rec.GetValues()
		if rest := len(values) - shownBytes; rest > 0 {
			v.Lines = append(v.Lines, toned{display.Bytes(values[:shownBytes]), ""}, toned{ui.Plural(rest, "more byte", "more bytes"), "faint"})
		} else if len(values) > 0 {
			v.Lines = append(v.Lines, toned{display.JSON(values, 0), ""})
		}
		return v, nil
	}
	return nil, fmt.Errorf("record %d: %w", seq, client.ErrNotFound)
}

// maxConfig is how long a configuration may be that is changed on the page, in bytes.
const maxConfig = 32 << 10

// config returns the text of the daemon's file as it is on disk, or that of the built-in default.
func (s *server) config(ctx context.Context, _ *http.Request) (any, error) {
	set, err := s.client.PolicySet(ctx)
	if err != nil {
		return nil, err
	}
	var out struct {
		Text string `json:"text"`
	}
	if set.GetSource() == "" {
		out.Text = policy.Starter(s.app.Now())
		return out, nil
	}
	f, err := os.Open(set.GetSource())
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the configuration: %w", err)
	case len(text) > maxConfig || !utf8.Valid(text):
		return nil, fmt.Errorf("%s is too long or no text, so it can't be changed here; name another file instead", display.Text(set.GetSource()))
	}
	out.Text = string(text)
	return out, nil
}

// backtest judges the recorded calls by a configuration that need not be in force. One runs at a time.
func (s *server) backtest(ctx context.Context, r *http.Request) (any, error) {
	var got struct {
		Config string `json:"config"` // a path; empty: the daemon's file as it is on disk
		Text   string `json:"text"`   // what the file would say; empty: what it says
		Since  string `json:"since"`
	}
	if err := readJSON(r, &got); err != nil {
		return nil, err
	}
	config, err := connect.Absolute(got.Config)
	if err != nil {
		return nil, err
	}
	at, err := ui.ParseWhen(cmp.Or(strings.TrimSpace(got.Since), "7d"), s.app.Now())
	if err != nil {
		return nil, fmt.Errorf("since: %w", err)
	}
	s.mu.Lock()
	busy := s.busy
	s.busy = true
	s.mu.Unlock()
	if busy {
		return nil, errors.New("another backtest is running; wait for it")
	}
	defer func() {
		s.mu.Lock()
		s.busy = false
		s.mu.Unlock()
	}()
	var b policy.Backtested
	for e, err := range s.client.Backtest(ctx, &pb.BacktestRequest{Config: config, Text: []byte(got.Text), Since: timestamppb.New(at)}) {
		if err != nil {
			var text bytes.Buffer
			if found := ui.DiagnosticsOf(err); len(found) > 0 && ui.PrintDiagnostics(&text, found, 0) == nil {
				return view{Lines: []toned{{display.Lines(text.String()), "deny"}}}, nil
			}
			return nil, err
		}
		b.Add(e)
	}
	v := view{Lines: []toned{{b.Total(s.app.Now()), "strong"}}}
	for _, t := range b.Tables() {
		v.Tables = append(v.Tables, tableOf("", "", t))
	}
	return v, nil
}
