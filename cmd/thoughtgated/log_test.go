package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/thoughtgate/thoughtgated/internal/journal"
)

func nothing(string) string { return "" }

// NFR-002: the names, formats and order of the fields.
func TestLogLines(t *testing.T) {
	told := func(format string) string {
		var b bytes.Buffer
		log := newLogger(options{format: format}, "daemon", nothing, &b)
		log.With("component", "audit").Warn("m", "err", errors.New("no room"), "latency_us", 450, "tool", "read_file", "server_id", "files", "after", time.Second, "server_id", "github")
		return b.String()
	}
	const at = `2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
	for format, want := range map[string]string{
		"json": `^{"timestamp":"` + at + `","level":"warn","msg":"m","component":"audit","server_id":"github","tool":"read_file","latency_us":450,"err":"no room","after":"1s"}\n$`,
		"text": `^timestamp=` + at + ` level=warn msg=m component=audit server_id=github tool=read_file latency_us=450 err="no room" after=1s\n$`,
	} {
		if got := told(format); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: got %s, want %s", format, got, want)
		}
	}
	var b bytes.Buffer
	newLogger(options{}, "daemon", nothing, &b).WithGroup("a").With("b", 1).Info("m", slog.Group("c", "d", 2))
	if !strings.Contains(b.String(), `"component":"daemon","a_b":1,"a_c_d":2}`) {
		t.Errorf("groups: got %s", &b)
	}
}

// Untrusted text never reaches a log unchanged: no terminal sequences or invisible characters,
// no line breaks, no secrets, no endless text.
func TestNothingInTheLogIsRaw(t *testing.T) {
	const token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		log := newLogger(options{format: format}, "daemon", nothing, &b)
		for _, odd := range []string{"\x1b[2J", "a\nlevel=error msg=forged", "gnp\u202etxt", "\u009b2J", "\x7f", "\xff", "a\u200bb", "\u2028", token, "https://user:" + token + "@example.com/"} {
			log.Info("m", "tool", odd, "err", errors.New(odd), "what", []string{odd}, "any", struct{ A string }{odd})
			log.Warn(odd)
		}
		log.Info("m", "tool", strings.Repeat("x", 10<<20))
		log.Info("m", "tool", strings.Repeat("x", longestValue-10)+token)
		for line := range strings.Lines(b.String()) {
			if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }); i >= 0 {
				t.Errorf("%s: an unescaped character in %.200s", format, line)
			}
			if len(line) > longestValue+1000 {
				t.Errorf("%s: a line of %d bytes", format, len(line))
			}
			if format == "json" && json.Unmarshal([]byte(line), new(map[string]any)) != nil {
				t.Errorf("no JSON: %.200s", line)
			}
		}
		if n := strings.Count(b.String(), "\n"); n != 22 {
			t.Errorf("%s: %d lines, want 22", format, n)
		}
		if strings.Contains(b.String(), token[:20]) || !strings.Contains(b.String(), "[secret]") {
			t.Errorf("%s: a secret is told", format)
		}
	}
	// A hash that is compared with one elsewhere is complete.
	sum := strings.Repeat("0123456789abcdef", 4)
	var b bytes.Buffer
	newLogger(options{}, "daemon", nothing, &b).Info("head of the audit log", "sha256", sum, "log", "token", "set", sum)
	if strings.Count(b.String(), sum) != 2 {
		t.Errorf("got %s", &b)
	}
}

// Under systemd, the daemon logs to the journal only if standard error leads there.
func TestLogFollowsStandardError(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	newLogger(options{}, "daemon", func(string) string { return "1:1" }, f).Info("m")
	if text, err := os.ReadFile(f.Name()); err != nil || !strings.HasPrefix(string(text), `{"timestamp":`) {
		t.Errorf("got %s %v", text, err)
	}
}

// The documentation names every field, as in lines and in the journal.
func TestPageNamesFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"timestamp", "level", "msg"}, fields...) {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/metrics.md does not name the field %s", name)
		}
	}
	for _, name := range fields {
		if row := fmt.Sprintf("| `%s` | `%s` |", name, journal.Field(name)); !strings.Contains(string(page), row) {
			t.Errorf("docs/metrics.md has no row %s", row)
		}
	}
}

// What the HTTP client says of its own accord, with bytes of a server, is for debugging, and as harmless as all
// else.
func TestLibrariesLog(t *testing.T) {
	before := log.Writer()
	defer log.SetFlags(log.Flags())
	for level, lines := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		var b bytes.Buffer
		takeLibraries(newLogger(options{level: level}, "daemon", nothing, &b))
		quoteUnasked(t)
		log.SetOutput(before) // and b is no longer written to
		if got := b.String(); strings.Count(got, "\n") != lines || strings.Contains(got, "\x1b") || lines > 0 && !strings.Contains(got, "Unsolicited response") {
			t.Errorf("at level %s: got %q", level, got)
		}
	}
}

// quoteUnasked has the HTTP client read a response that nobody asked for, and returns when it has closed the connection.
func quoteUnasked(t *testing.T) {
	t.Helper()
	closed := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			closed <- err
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 \x1b[2J\nlevel=error\r\n\r\n") // the client notices
		_, err = io.Copy(io.Discard, conn)
		closed <- err
	}))
	defer s.Close()
	transport := &http.Transport{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	<-closed // an error if the client had not read everything
}
