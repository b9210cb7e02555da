package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
)

// hostileText holds what must reach no browser as it is.
const hostileText = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x00\u202e\u2066\u200b\x1b[2J"

// checkSafe fails if JSON for the page has a text that acts or hides.
func checkSafe(t *testing.T, name string, text []byte) {
	t.Helper()
	if strings.Contains(string(text), "<") {
		t.Errorf("%s: a < is in the JSON: %.200s", name, text)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.ContainsAny(v, "\x00\u202e\u2066\u200b\x1b\ufffd") {
				t.Errorf("%s: %.200q", name, v)
			}
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(v)
}

// Hostile text in every member of questions, records and tables is escaped, and long text is cut.
func TestHostileText(t *testing.T) {
	long := hostileText + strings.Repeat("long ", 1<<18)
	f := start(t, func(d *consoletest.Daemon) {
		q := d.Approvals[1]
		q.Server, q.Tool, q.Agent, q.Reason, q.Rule = long, long, long, long, long
		q.Arguments = []byte(`{"name":"x","arguments":{"<script>":"` + strings.ReplaceAll(strings.ReplaceAll(hostileText, "\x00", `\u0000`), "\x1b", `\u001b`) + `"}}`)
		q.Arguments = []byte(strings.ToValidUTF8(string(q.Arguments), "?"))
		q.Facts = []string{hostileText}
		d.Sessions[0].Spec.Agent, d.Sessions[0].Spec.Project = hostileText, hostileText
		d.Servers[0].Id, d.Servers[0].Command = hostileText, []string{hostileText}
		d.Pins[0].Ref.Name = hostileText
		d.Set.Source, d.Set.Detail.Rules[0].Cited.Name = hostileText, hostileText
	})
	f.enter()
	f.s.feed.add(&record.Record{Seq: 99, Kind: record.KindCall, Verdict: long, Agent: long + "\xff", Server: long, Method: "tools/call", Tool: long, Reason: long, Time: time.Now()})
	update := f.firstUpdate(`"id":"A-3"`)
	if len(update) > 64<<10 {
		t.Errorf("an update has %d bytes", len(update))
	}
	checkSafe(t, "stream", update[len("data: "):])
	for _, path := range []string{"/api/question?id=A-3", "/api/sessions", "/api/servers", "/api/policy", "/api/search", "/api/search?text=e", "/api/record?seq=4", "/api/question?id=%3Cscript%3E%00"} {
		_, _, text := f.send("GET", path, "", f.papers()...)
		checkSafe(t, path, []byte(text))
	}
}

// A thousand calls a second for a minute leave the feed as large as it was, and a reader that looks seldom gets the newest.
func TestFeedIsBounded(t *testing.T) {
	f := newFeed(time.Now)
	var read position
	for i := range 60_000 {
		f.add(&record.Record{
			Seq: uint64(i), Kind: record.KindCall, Verdict: "forward", Agent: fmt.Sprint("a", i), Server: fmt.Sprint("s", i), Method: "tools/call", Tool: fmt.Sprint("t", i), Time: time.Now().Add(-time.Duration(i) * time.Minute),
		})
	}
	if len(f.calls) != keptCalls || len(f.agents) > countedNames+1 || len(f.servers) > countedNames+1 || len(f.tools) > countedNames+1 || len(f.hours) > 26 {
		t.Errorf("kept %d calls, %d agents, %d servers, %d tools, %d hours", len(f.calls), len(f.agents), len(f.servers), len(f.tools), len(f.hours))
	}
	u, _ := f.since(&read)
	if len(u.Calls) != keptCalls || u.Missed != 60_000-keptCalls || u.Calls[keptCalls-1].Seq != 59_999 || len(u.Counts.Agents) != sentNames || len(u.Counts.Hours) != 24 {
		t.Errorf("got %d calls, %d missed, %d agents, %d hours", len(u.Calls), u.Missed, len(u.Counts.Agents), len(u.Counts.Hours))
	}
	if u, _ = f.since(&read); len(u.Calls) != 0 || u.Missed != 0 || u.Questions != nil || u.Counts != nil {
		t.Errorf("without news: %+v", u)
	}
	f.add(&record.Record{Seq: 60_000, Kind: record.KindCall, Verdict: "deny", Time: time.Now()})
	if u, _ = f.since(&read); len(u.Calls) != 1 || u.Calls[0].Seq != 60_000 || u.Missed != 0 {
		t.Errorf("one more: %+v", u)
	}
}

// A call counts once, by its end, also where that comes later; a message of the protocol not at all.
func TestCounts(t *testing.T) {
	f := newFeed(time.Now)
	for i, r := range []record.Record{
		{Verdict: "forward", Call: 1}, {Verdict: "hold", Approval: "A-1", Call: 2}, {Verdict: "deny", Call: 3}, {Verdict: "hold", Approval: "A-2", Call: 4},
		{Kind: record.KindDecision, Verdict: "approved", Approval: "A-1"}, {Verdict: "forward", Approval: "A-1", Call: 2}, {Kind: record.KindOutcome, Verdict: "ok", Call: 2},
		{Verdict: "forward", Call: 5, Method: "tools/list"},
	} {
		r.Seq, r.Attachment, r.Server, r.Tool, r.Time, r.Kind, r.Method = uint64(i+1), "t-1", "fs", "read", time.Now(), cmp.Or(r.Kind, record.KindCall), cmp.Or(r.Method, "tools/call")
		f.add(&r)
	}
	want := calls.Tally{calls.Forwarded: 2, calls.Held: 1, calls.Denied: 1}
	if got := f.servers["fs"].Calls; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := f.hour(time.Now()).Calls; got != want {
		t.Errorf("this hour has %v, want %v", got, want)
	}
	u, _ := f.since(&position{})
	if last := u.Calls[len(u.Calls)-1]; last.First != 2 || last.Seq != 6 || !strings.HasPrefix(string(last.End), "held ") || !strings.HasSuffix(string(last.End), "approved, ok") {
		t.Errorf("the last change is %+v", last)
	}
}

// The page's counts, by hour and by name, are those of what is exported.
func TestNumbersAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFeed(func() time.Time { return consoletest.Noon })
		var jsonl strings.Builder
		for _, line := range consoletest.Chained(consoletest.DrawLog(r)) {
			rec, err := record.Parse(line.GetLine())
			if err != nil {
				r.Fatal(err)
			}
			f.add(&rec)
			fmt.Fprintf(&jsonl, "%s\n", line.GetLine())
		}
		forwarded, held, denied, _ := consoletest.Exported(r, jsonl.String())
		want := calls.Tally{calls.Forwarded: uint64(forwarded), calls.Held: uint64(held), calls.Denied: uint64(denied)}
		c := f.counts()
		for of, all := range map[string][]named{"agents": c.Agents, "servers": c.Servers, "tools": c.Tools, "hours": ui.Map(c.Hours, func(h hour) named { return named{"", h.tally} })} {
			var got calls.Tally
			for _, n := range all {
				for end, count := range n.Calls {
					got[end] += count
				}
			}
			if got != want {
				r.Errorf("of %s: %v, want %v", of, got, want)
			}
		}
	})
}

// A reader that takes nothing is cut, and others don't notice.
func TestSlowReader(t *testing.T) {
	f := newFeed(time.Now)
	s := &server{feed: f, streams: make(chan struct{}, 2), pace: time.Millisecond, patience: 100 * time.Millisecond}
	ended := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		s.stream(w, r)
	}))
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	deadline := time.Now().Add(time.Minute)
	for i := uint64(0); ; i++ {
		for range keptCalls {
			f.add(&record.Record{Seq: i, Kind: record.KindCall, Verdict: "forward", Reason: strings.Repeat("long ", 70), Time: time.Now()})
		}
		select {
		case <-ended:
			if len(s.streams) > 0 {
				t.Error("its place is still taken")
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("a reader that takes nothing was not cut")
		}
	}
}
