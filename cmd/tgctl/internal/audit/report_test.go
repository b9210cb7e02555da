package audit

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
)

// counted returns a counter of records.
func counted(records ...record.Record) *counter {
	c := newCounter()
	for i := range records {
		r := &records[i]
		r.Seq = uint64(i + 1)
		if r.Time.IsZero() {
			r.Time = consoletest.Noon.Add(time.Duration(i-len(records)) * time.Minute)
		}
		c.add(r)
	}
	return c
}

func rendered(t *testing.T, c *counter) string {
	t.Helper()
	var out bytes.Buffer
	if err := writeReport(&out, c, []byte("{}"), "5f3a", consoletest.Noon); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func numbered(r record.Record, call uint64) record.Record {
	r.Call = call
	return r
}

func TestReportCounts(t *testing.T) {
	call := func(verdict, server, tool string) record.Record {
		return record.Record{Kind: record.KindCall, Verdict: verdict, Server: server, Tool: tool, Rule: `"delete_*" (thoughtgate.yaml:12)`}
	}
	c := counted(
		numbered(call("forward", "fs", "read"), 2), numbered(call("forward", "fs", "read"), 4), call("deny", "fs", "delete"), call("hold", "db", "write"),
		record.Record{Kind: record.KindDecision, Verdict: "approved", Decider: "ana (uid 1000)", Surface: "terminal", LatencyUS: 4e6},
		record.Record{Kind: record.KindDecision, Verdict: "rejected", Decider: "ana (uid 1000)", Surface: "terminal", LatencyUS: 40e6},
		record.Record{Kind: record.KindDecision, Verdict: "expired"},
		record.Record{Kind: record.KindDecision, Verdict: "approved", Auto: true},
		record.Record{Kind: record.KindOutcome, Verdict: "ok", Call: 2}, record.Record{Kind: record.KindOutcome, Verdict: "tool_error", Call: 4},
		record.Record{Kind: record.KindReload, Verdict: "in_force", Decider: "ana (uid 1000)"},
	)
	text := regexp.MustCompile(`\s*<[^>]*>\s*`).ReplaceAllString(rendered(t, c), "|")
	text = regexp.MustCompile(`\|+`).ReplaceAllString(text, "|")
	for _, want := range []string{
		"|4|calls|2|forwarded|1|held, without an answer|1|denied|",
		"|1|questions approved|1|questions denied|1|questions expired or withdrawn|1|approved automatically (development)|",
		"|fs|2|0|1|db|0|1|0|", "|read|fs|2|0|0|", "|&#34;delete_*&#34; (thoughtgate.yaml:12)|1|", "|ok|1|", "|tool_error|1|",
		"50% within 4 s, 90% within 4 s", "|under 5 s|1|5 to 30 s|0|30 s to 2 min|1|",
		"|ana (uid 1000)|terminal|1|1|", "|reload, in force|ana (uid 1000)|", "11 records, from 1 to 11",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text[strings.Index(text, "|ThoughtGate report|"):])
		}
	}
}

// TestReportIsInert checks that text from outside stays text everywhere, and that the page
// loads nothing.
func TestReportIsInert(t *testing.T) {
	evil := "\"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\u202e\x1b[2J"
	c := counted(
		record.Record{Kind: record.KindCall, Verdict: "deny", Server: evil, Tool: evil, Rule: evil},
		record.Record{Kind: record.KindDecision, Verdict: "approved", Decider: evil, Surface: evil},
		record.Record{Kind: record.KindOutcome, Verdict: evil},
		record.Record{Kind: record.KindPin, Verdict: evil, Server: evil, Tool: evil, Reason: evil},
	)
	page := rendered(t, c)
	for _, bad := range []string{"<script", "<img", "\u202e", "\x1b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if found := regexp.MustCompile(`(?i)<[^>]*\s(src|href|on\w+)\s*=[^>]*>|url\(|@import`).FindString(page); found != "" {
		t.Errorf("the page may load or run something: %s", found)
	}
	if !strings.Contains(page, "default-src &#39;none&#39;") && !strings.Contains(page, "default-src 'none'") {
		t.Error("the page does not forbid to load anything")
	}
	if err := wellFormed(page); err != nil {
		t.Errorf("the page is not well formed: %v", err)
	}
}

// The page stays readable with any number of names and days.
func TestReportIsBounded(t *testing.T) {
	c := newCounter()
	for i := range 30_000 {
		c.add(&record.Record{
			Kind: record.KindCall, Verdict: "forward", Server: fmt.Sprint("server", i), Tool: fmt.Sprint("tool", i),
			Seq: uint64(i + 1), Time: consoletest.Noon.Add(time.Duration(i) * time.Hour),
		})
	}
	page := rendered(t, c) // it closes c
	if len(page) > 100_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if n := strings.Count(page, "<g>"); n < 10 || n > maxColumns+1 {
		t.Errorf("the chart has %d columns", n)
	}
	var total uint64
	for _, n := range c.servers {
		total += n.Total()
	}
	if total != 30_000 || len(c.servers) > maxNames+1 {
		t.Errorf("%d calls of %d names are counted", total, len(c.servers))
	}
}

// The chart stays inside its frame, whatever the numbers.
func TestChart(t *testing.T) {
	for _, n := range []uint64{1, 2, 7, 99, 100, 101, 123_456_789} {
		if top := niceTop(n); top < n || top > 2*n {
			t.Errorf("the scale for %d ends at %d", n, top)
		}
	}
	for _, span := range []time.Duration{0, time.Hour, 95 * time.Hour, 97 * time.Hour, 400 * 24 * time.Hour} {
		c := counted(record.Record{Kind: record.KindCall, Verdict: "deny", Time: consoletest.Noon.Add(-span)}, record.Record{Kind: record.KindCall, Verdict: "forward", Time: consoletest.Noon})
		c.reader.Close()
		ch := chartOf(c, consoletest.Noon.Location())
		calls := 0
		for _, col := range ch.Columns {
			if col.X < chartLeft || col.X+col.Width > chartWidth || col.Denied.Y < chartTop-1 {
				t.Errorf("%v: a column stands outside: %+v", span, col)
			}
			if col.Forwarded.Height > 0 {
				calls++
			}
			if col.Denied.Height > 0 {
				calls++
			}
		}
		if calls != 2 || len(ch.Columns) > maxColumns+1 {
			t.Errorf("%v: %d columns, %d of two calls", span, len(ch.Columns), calls)
		}
	}
}

// wellFormed parses a page as XML, except for the elements that HTML leaves open.
func wellFormed(page string) error {
	page = regexp.MustCompile(`<(meta|link|br)([^>]*)>`).ReplaceAllString(strings.TrimPrefix(page, "<!doctype html>"), "<$1$2/>")
	dec := xml.NewDecoder(strings.NewReader(page))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestReportInABrowser renders the page in a real browser. Its DOM has the numbers and the
// chart, and nothing that a server could have injected.
func TestReportInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here to open the report with")
	}
	c := counted(
		record.Record{Kind: record.KindCall, Verdict: "forward", Server: "fs", Tool: "read"},
		record.Record{Kind: record.KindCall, Verdict: "deny", Server: "<script>document.title='owned'</script>", Tool: "x"},
	)
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(rendered(t, c)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>ThoughtGate report</title>", "<b>2</b>calls", "<rect", "&lt;script&gt;"} {
		if !strings.Contains(string(dom), want) {
			t.Errorf("the browser does not show %q", want)
		}
	}
	if strings.Contains(string(dom), "<script") {
		t.Error("the browser has built a script")
	}
}

// TestReportOfResults checks that a forwarded result does not count as a second call, and that
// a withheld one does not count as a denied call.
func TestReportOfResults(t *testing.T) {
	result := record.Record{Kind: record.KindCall, Verdict: "forward", Server: "fs", Tool: "read", Method: "tools/call", Direction: "server_to_agent", MessageID: "1"}
	call, withheld, ask := result, result, result
	call.Direction, call.Call, withheld.Verdict, withheld.Rule, ask.Method = "agent_to_server", 2, "deny", "extension scrubber", "sampling/createMessage"
	c := counted(call, result, withheld, ask)
	c.reader.Close()
	if c.calls != (calls.Tally{calls.Forwarded: 2}) || c.outcomes["withheld by an extension"] != 1 {
		t.Errorf("counted %v, with the outcomes %v", c.calls, c.outcomes)
	}
}

// TestReportOfHeldCalls checks that a held call counts once, by its end, and that a later call with the
// same number in another attachment counts as well.
func TestReportOfHeldCalls(t *testing.T) {
	of := func(attachment string, call uint64, verdict string) record.Record {
		return record.Record{Kind: record.KindCall, Verdict: verdict, Server: "fs", Tool: "write", Method: "tools/call", Attachment: attachment, Call: call, Rule: "write"}
	}
	c := counted(of("a", 2, "hold"), of("a", 4, "hold"), of("a", 4, "hold"), of("b", 2, "forward"), of("a", 2, "forward"), of("a", 4, "deny"), of("a", 6, "deny"),
		of("a", 8, "hold"), of("a", 8, "park"), of("a", 10, "hold"))
	c.reader.Close()
	if want := (calls.Tally{calls.Forwarded: 2, calls.Held: 2, calls.Denied: 2}); c.calls != want || *c.servers["fs"] != want || c.reasons["write"] != 2 || c.parked != 1 {
		t.Errorf("counted %v, by server %v, denied by %v, %d parked", c.calls, *c.servers["fs"], c.reasons, c.parked)
	}
}

// Messages of the protocol and the canary stand on a line of their own.
func TestReportOfWhatIsNoCall(t *testing.T) {
	page := rendered(t, counted(
		record.Record{Kind: record.KindCall, Verdict: "forward", Server: "fs", Method: "tools/call", Tool: "read"},
		record.Record{Kind: record.KindCall, Verdict: "forward", Server: "fs", Method: "tools/list", Direction: "server_to_agent", Gate: "visible"},
		record.Record{Kind: record.KindCall, Verdict: "deny", Server: "fs", Method: "notifications/unknown", Direction: "server_to_agent"},
		record.Record{Kind: record.KindCall, Verdict: "deny", Server: record.CanaryServer, Method: "tools/call", Tool: "canary"},
		record.Record{Kind: record.KindCall, Verdict: "deny", Server: "agent", Method: "tools/call", Tool: "shell", Rule: record.CanaryRule},
	))
	for _, want := range []string{"<b>1</b>calls", "<b>0</b>denied", "Besides: 2 messages of the protocol, such as lists (1 denied); 2 test calls of tgctl doctor"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// The page has rules for a narrow screen and for paper, and nothing but the chart, which scrolls, is wider than a
// phone.
func TestReportFitsAPhone(t *testing.T) {
	page := rendered(t, counted(record.Record{Kind: record.KindCall, Verdict: "forward", Server: "fs", Tool: "read"}))
	for _, want := range []string{"@media (max-width: 600px)", "@media print", "prefers-color-scheme: dark", ".chart { overflow-x: auto; ", `<div class="chart"><svg`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, rule := range regexp.MustCompile(`[^{}]*\{[^{}]*min-width: *(\d+)px[^{}]*\}`).FindAllStringSubmatch(page, -1) {
		if n, _ := strconv.Atoi(rule[1]); n > 360 && !strings.Contains(rule[0], ".chart svg") {
			t.Errorf("wider than a phone: %s", rule[0])
		}
	}
}
