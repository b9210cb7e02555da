package hostile

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/behind"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

var streamMB = flag.Int("stream", 100, "how many megabytes a server says that never stops")

// webCase is what a server behind an address does that it should not.
type webCase struct {
	name string
	bad  http.HandlerFunc // answers the call
	// crosses is in the answer that the agent gets; empty if that is an error of ours.
	crosses string
	era     string           // modern, or legacy
	call    string           // the call; empty for one of the tool bad
	tools   string           // of the server; empty for good ones
	listen  http.HandlerFunc // answers GET; nil for no stream
	first   http.HandlerFunc // answers initialize in place of the good answer
	ends    bool             // no call after it is answered
	check   func(t *testing.T, v *visit)
}

// visit is a webCase that is played.
type visit struct {
	webCase
	shim    *rig.Shim
	calls   atomic.Int32                // POSTs of the call
	lists   atomic.Int32                // of lists of tools
	header  atomic.Pointer[http.Header] // of the last of the calls
	unheard chan struct{}               // closed when the agent has left a subscription
}

const (
	badCall  = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"bad","arguments":{}}}`
	goodCall = `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{}}}`
)

func real7(text string) string { return answer("7", text) }

// ServeHTTP is a good server but for the call.
func (v *visit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := readMessage(body)
	isCall := err == nil && (m.raw("id") == "7")
	switch {
	case r.Method == http.MethodGet && v.listen != nil:
		v.listen(w, r)
	case isCall && r.Method == http.MethodPost:
		v.calls.Add(1)
		header := r.Header.Clone()
		v.header.Store(&header)
		v.bad(w, r)
	case r.Method == http.MethodDelete:
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case err != nil || !m.has("method") || !m.has("id"):
		w.WriteHeader(http.StatusAccepted)
	case m.text("method") == "initialize" && v.first != nil:
		v.first(w, r)
	case m.text("method") == "subscriptions/listen":
		defer close(v.unheard)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"70\"}}}\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		result := `{"content":[]}`
		switch m.text("method") {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case "tools/list":
			v.lists.Add(1)
			result = `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + cmp.Or(v.tools, tools) + `}`
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.raw("id"), result)
	}
}

// raw answers with these bytes, and closes the connection when the client does, or soon.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, func(c net.Conn) { _, _ = io.WriteString(c, text) })
	}
}

func hijack(w http.ResponseWriter, f func(net.Conn)) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	f(conn)
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// headed answers 200 with JSON, more headers, and a body, all raw.
func headed(headers, body string) http.HandlerFunc {
	return raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body)
}

// typed answers with a body of that type.
func typed(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

func asJSON(body string) http.HandlerFunc   { return typed("application/json", body) }
func asEvents(body string) http.HandlerFunc { return typed("text/event-stream", body) }

// status answers with a status and headers.
func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "mark-web")
	}
}

// endless says text again and again, as long as somebody reads, or as many megabytes as were asked for.
func endless(kind, encoding, head, text string) http.HandlerFunc {
	block := strings.Repeat(text, 1+(64<<10)/len(text))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		out := io.Writer(w)
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			defer z.Close()
			out = z
		}
		_, err := io.WriteString(out, head)
		for n := 0; err == nil && n < *streamMB<<20; n += len(block) {
			_, err = io.WriteString(out, block)
		}
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

const chunked = "Transfer-Encoding: chunked\r\n"

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

func length(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }

// webCases are the cases of one exchange of HTTP.
func webCases() []webCase {
	good, mark := real7("real"), real7("mark-web")
	event := func(text string) string { return "data: " + text + "\n\n" }
	cases := []webCase{
		{name: "good", bad: asJSON(good), crosses: good},
		{name: "good-event", bad: asEvents(event(good)), crosses: good},

		{name: "chunk-size-no-number", bad: headed(chunked, "zz\r\n"+mark+"\r\n0\r\n\r\n")},
		{name: "chunk-size-negative", bad: headed(chunked, "-5\r\n"+mark+"\r\n0\r\n\r\n")},
		{name: "chunk-size-of-a-terabyte", bad: headed(chunked, "ffffffffff\r\n"+mark)},
		{name: "chunk-size-overflow", bad: headed(chunked, "fffffffffffffffff1\r\n"+mark)},
		{name: "chunk-longer-than-it-says", bad: headed(chunked, "5\r\n"+mark+"\r\n0\r\n\r\n")},
		{name: "chunk-shorter-than-it-says", bad: headed(chunked, "ffff\r\n"+mark+"\r\n0\r\n\r\n")},
		{name: "chunks-without-end", bad: headed(chunked, chunk(mark[:20]))},
		{name: "chunks-of-a-byte", bad: headed(chunked, strings.Repeat("1;"+repeat("x", 200)+"\r\n \r\n", 20000)+chunk(mark)+"0\r\n\r\n")},
		{name: "chunk-with-a-long-extension", bad: headed(chunked, "1;"+repeat("x", 1<<20)+"\r\n \r\n"+chunk(mark)+"0\r\n\r\n")},
		{name: "trailers", bad: headed(chunked, chunk(good)+"0\r\n"+strings.Repeat("Mcp-Session-Id: mark-web\r\n", 10)+"\r\n"), crosses: good},
		{name: "trailers-without-end", bad: func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, func(c net.Conn) {
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+chunked+"\r\n"+chunk(mark)+"0\r\n")
				for n := 0; err == nil && n < *streamMB<<20; n += 4096 {
					_, err = io.WriteString(c, strings.Repeat("X-A: b\r\n", 512))
				}
			})
		}},
		{name: "length-too-small", bad: headed(length(20), mark)},
		{name: "length-too-large", bad: headed(length(len(mark)+1), mark)},
		{name: "length-of-10-gigabytes", bad: headed(length(10<<30), mark)},
		{name: "length-negative", bad: headed("Content-Length: -1\r\n", mark)},
		{name: "length-with-a-sign", bad: headed("Content-Length: +50\r\n", mark)},
		{name: "length-twice", bad: headed(length(5)+length(len(mark)), mark)},
		{name: "length-and-chunks", bad: headed(length(5)+chunked, chunk(good)+"0\r\n\r\n"), crosses: good},
		{name: "coding-unknown", bad: headed("Transfer-Encoding: mark-web\r\n", mark)},
		{name: "coding-twice", bad: headed("Transfer-Encoding: gzip, chunked\r\n", chunk(mark)+"0\r\n\r\n")},
		{name: "header-without-a-colon", bad: headed("mark-web\r\n", mark)},
		{name: "header-folded", bad: headed("X-A: b\r\n Content-Length: 3\r\n"+length(len(good)), good), crosses: good},
		{name: "header-with-nul", bad: headed("X-A: \x00\r\n"+length(len(mark)), mark)},
		{name: "no-http", bad: raw("mark-web\r\n\r\n" + mark)},
		{name: "no-status-line", bad: raw(mark)},
		{name: "status-of-two-digits", bad: raw("HTTP/1.1 20 OK\r\n\r\n" + mark)},
		{name: "http-2-on-a-plain-connection", bad: raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
		{name: "informational-without-end", bad: func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, func(c net.Conn) {
				for n, err := 0, error(nil); err == nil && n < *streamMB<<20; n += 4096 {
					_, err = io.WriteString(c, strings.Repeat("HTTP/1.1 100 Continue\r\nX-A: b\r\n\r\n", 128))
				}
			})
		}},
		{name: "switches-protocols", bad: raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + mark)},
		{name: "two-responses", bad: headed(length(len(good)), good+"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+length(len(answer("8", "mark-web")))+"\r\n"+answer("8", "mark-web")), crosses: good},
		{name: "closes", bad: raw("")},
		{name: "no-content", bad: status(http.StatusNoContent)},
		{name: "accepted", bad: status(http.StatusAccepted)},
		{name: "teapot", bad: status(http.StatusTeapot)},
		{name: "not-modified", bad: raw("HTTP/1.1 304 Not Modified\r\n\r\n" + mark)},
		{name: "partial", bad: raw("HTTP/1.1 206 Partial Content\r\nContent-Type: application/json\r\n" + length(len(mark)-3) + "\r\n" + mark[3:])},

		{name: "header-of-a-megabyte", bad: headed("X-A: "+repeat("mark-web", 1<<17)+"\r\n", mark)},
		{name: "headers-too-many", bad: headed(strings.Repeat("Set-Cookie: mark-web=1\r\n", 20000), mark)},
		{name: "headers-without-end", bad: func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, func(c net.Conn) {
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
				for n := 0; err == nil && n < *streamMB<<20; n += 4096 {
					_, err = io.WriteString(c, strings.Repeat("X-A: b\r\n", 512))
				}
			})
		}},
		{name: "header-line-without-end", bad: func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, func(c net.Conn) {
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: ")
				for n := 0; err == nil && n < *streamMB<<20; n += 4096 {
					_, err = io.WriteString(c, repeat("x", 4096))
				}
			})
		}},
		{name: "asked-again-in-a-year", bad: status(http.StatusTooManyRequests, "Retry-After", "31536000")},
		{name: "wants-a-login", bad: status(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="`+repeat("mark-web", 4000)+`", resource_metadata="http://169.254.169.254/mark-web"`)},

		{name: "no-type", bad: raw("HTTP/1.1 200 OK\r\n" + length(len(mark)) + "\r\n" + mark)},
		{name: "html", bad: typed("text/html", "<script>"+mark+"</script>")},
		{name: "plain-text", bad: typed("text/plain", mark)},
		{name: "json-of-another-type", bad: typed("application/problem+json", mark)},
		{name: "json-in-utf-16", bad: asJSON("{\x00\"\x00j\x00}\x00")},
		{name: "json-empty", bad: asJSON("")},
		{name: "json-cut-short", bad: asJSON(mark[:len(mark)-3])},
		{name: "json-batch", bad: asJSON("[" + mark + "]")},
		{name: "json-two", bad: asJSON(mark + mark)},
		{name: "json-two-lines", bad: asJSON(mark + "\n" + answer("8", "mark-web"))},
		{name: "json-names-twice", bad: asJSON(`{"jsonrpc":"2.0","id":7,"result":{},"result":{"v":"mark-web"}}`)},
		{name: "json-folded-names", bad: asJSON(`{"jsonrpc":"2.0","id":7,"result":{},"Result":{"v":"mark-web"}}`)},
		{name: "json-bom", bad: asJSON("\ufeff" + mark)},
		{name: "json-nul", bad: asJSON(mark + "\x00")},
		{name: "json-on-lines", bad: asJSON("{\r\n \"jsonrpc\": \"2.0\",\n \"id\": 7,\n \"result\": {\"content\": []}\n}\n"), crosses: `"result": {"content": []}`},
		{name: "json-line-in-a-string", bad: asJSON("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"v\":\"mark-web\n" + answer("8", "mark-web") + "\n\"}}")},
		{name: "json-of-another-call", bad: asJSON(answer("8", "mark-web"))},
		{name: "json-of-another-type-of-id", bad: asJSON(answer(`"7"`, "mark-web"))},
		{name: "json-a-request", bad: asJSON(request("9", "acme/run", `{"v":"mark-web"}`))},
		{name: "json-a-notification", bad: asJSON(`{"jsonrpc":"2.0","method":"notifications/acme","params":{"v":"mark-web"}}`)},

		{name: "events-cr", bad: asEvents("event: message\rid: 1\rdata: " + good + "\r\r"), crosses: good},
		{name: "events-crlf", bad: asEvents("data: " + good + "\r\n\r\n"), crosses: good},
		{name: "events-bom", bad: asEvents("\ufeffdata: " + good + "\n\n"), crosses: good},
		{name: "events-two-boms", bad: asEvents("\ufeff\ufeffdata: " + mark + "\n\n")},
		{name: "events-bom-in-the-message", bad: asEvents(event("\ufeff" + mark))},
		{name: "events-nul", bad: asEvents(event(strings.Replace(mark, "mark", "\x00mark", 1)))},
		{name: "events-nul-in-an-id", bad: asEvents("id: a\x00b\ndata: " + good + "\n\n"), crosses: good},
		{name: "events-half", bad: asEvents("data: " + mark + "\n")},
		{name: "events-half-a-line", bad: asEvents("data: " + mark[:30])},
		{name: "events-none", bad: asEvents("")},
		{name: "events-of-another-name", bad: asEvents("event: endpoint\ndata: " + mark + "\n\n")},
		{name: "events-of-lines", bad: asEvents("data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\ndata:\"result\":{\"content\":[]}}\n\n"), crosses: `"result":{"content":[]}`},
		{name: "events-line-in-a-string", bad: asEvents("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"v\":\"mark-web\ndata: " + answer("8", "mark-web") + "\ndata: \"}}\n\n")},
		{name: "events-cr-in-a-string", bad: asEvents("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"v\":\"mark-web\r" + answer("8", "mark-web") + "\"}}\n\n")},
		{name: "events-of-another-call", bad: asEvents(event(answer("8", "mark-web")))},
		{name: "events-two-answers", bad: asEvents(event(good) + event(mark)), crosses: good},
		{name: "events-batch", bad: asEvents(event("[" + mark + "]"))},
		{name: "events-garbage-first", bad: asEvents(event("starting mark-web") + event(good)), crosses: good},
		{name: "events-retry-in-a-year", bad: asEvents("retry: 31536000000\n\n" + event(good)), crosses: good},
		{name: "events-after-the-answer", bad: asEvents(event(good) + strings.Repeat(event(`{"jsonrpc":"2.0","method":"notifications/acme","params":{"v":"mark-web"}}`), 1000)), crosses: good},

		{name: "gzip", bad: headed("Content-Encoding: gzip\r\n"+length(len(gzipped(good))), gzipped(good)), crosses: good},
		{name: "gzip-that-is-none", bad: headed("Content-Encoding: gzip\r\n"+length(len(mark)), mark)},
		{name: "gzip-cut-short", bad: headed("Content-Encoding: gzip\r\n"+length(20), gzipped(mark)[:20])},
		{name: "gzip-in-gzip", bad: headed("Content-Encoding: gzip\r\n"+length(len(gzipped(gzipped(mark)))), gzipped(gzipped(mark)))},
		{name: "gzip-twice-said", bad: headed("Content-Encoding: gzip, gzip\r\n"+length(len(gzipped(gzipped(mark)))), gzipped(gzipped(mark)))},
		{name: "brotli", bad: headed("Content-Encoding: br\r\n"+length(len(mark)), mark)},
		{name: "deflate", bad: headed("Content-Encoding: deflate\r\n"+length(len(mark)), mark)},
		{name: "zstd", bad: headed("Content-Encoding: zstd\r\n"+length(len(mark)), mark)},

		{name: "redirect-to-itself", bad: func(w http.ResponseWriter, r *http.Request) { status(307, "Location", r.URL.Path)(w, r) }},
		{name: "redirect-farther-and-farther", bad: func(w http.ResponseWriter, r *http.Request) {
			status(308, "Location", r.URL.Path+"?x"+r.URL.RawQuery)(w, r)
		}},
		{name: "redirect-once", bad: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" {
				status(301, "Location", "?again")(w, r)
				return
			}
			asJSON(good)(w, r)
		}, crosses: good},
		{name: "redirect-see-other", bad: func(w http.ResponseWriter, r *http.Request) { status(303, "Location", r.URL.Path)(w, r) }},
		{name: "redirect-nowhere", bad: status(307)},
		{name: "redirect-to-a-text", bad: status(307, "Location", "http://[::1")},
	}
	for i, to := range []string{
		"http://169.254.169.254/latest/mark-web", "http://metadata.google.internal/mark-web", "https://127.0.0.1/mark-web", "//127.0.0.2/mark-web", "http://user@127.0.0.1/mark-web",
		"file:///etc/passwd", "javascript:alert(1)", "unix:///run/docker.sock", "http://0/mark-web", "http://[::ffff:127.0.0.1]/mark-web", "http:mark-web",
	} {
		cases = append(cases, webCase{name: fmt.Sprintf("redirect-away-%d", i), bad: status(307, "Location", to)})
	}
	block := repeat("mark-web", 1<<13)
	for _, kind := range []string{"text/event-stream", "application/json"} {
		for _, encoding := range []string{"", "gzip"} {
			name := fmt.Sprintf("-%s%s-without-end", strings.TrimPrefix(kind[strings.Index(kind, "/"):], "/"), encoding)
			cases = append(cases,
				webCase{name: "line" + name, bad: endless(kind, encoding, "", block)},
				webCase{name: "string" + name, bad: endless(kind, encoding, `data: {"jsonrpc":"2.0","id":7,"result":{"v":"`, block)},
				webCase{name: "blanks" + name, bad: endless(kind, encoding, "", "\n")})
		}
	}
	for name, text := range map[string]string{"lines": "data: " + block + "\n", "empty-lines": "data:\n", "comments": ":" + block + "\n", "ids": "id: 1\n\n", "fields": "mark-web:\n"} {
		cases = append(cases, webCase{name: "events-" + name + "-without-end", bad: endless("text/event-stream", "gzip", "", text)})
	}
	return cases
}

// eraCases are about the protocols that HTTP carries.
func eraCases() []webCase {
	good := `"resultType":"complete"`
	complete := asJSON(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[]}}`)
	named := func(name string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + meta + `,"name":"` + name + `","arguments":{}}}`
	}
	wants := func(name string, values ...string) func(*testing.T, *visit) {
		return func(t *testing.T, v *visit) {
			if got := v.header.Load().Values(name); !slices.Equal(got, values) {
				t.Errorf("the server gets %s: %q, want %q", name, got, values)
			}
		}
	}
	// elsewhere is this server by another name, which is another origin.
	elsewhere := func(r *http.Request) string {
		return "http://" + strings.Replace(r.Host, "127.0.0.1", "localhost", 1) + "/elsewhere"
	}
	endpoint := func(text func(r *http.Request) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { asEvents("event: endpoint\ndata: "+text(r)+"\n\n")(w, r) }
	}
	refusesPosts := status(http.StatusMethodNotAllowed)
	return []webCase{
		{name: "redirect-to-another-name-of-it", bad: func(w http.ResponseWriter, r *http.Request) { status(307, "Location", elsewhere(r))(w, r) }},
		{name: "old-endpoint-elsewhere", first: refusesPosts, bad: refusesPosts, ends: true, listen: endpoint(elsewhere)},
		{name: "old-endpoint-of-metadata", first: refusesPosts, bad: refusesPosts, ends: true, listen: endpoint(func(*http.Request) string { return "http://169.254.169.254/mark-web" })},
		{name: "old-endpoint-without-end", first: refusesPosts, bad: refusesPosts, ends: true, listen: endless("text/event-stream", "", "event: endpoint\ndata: /", "mark-web")},
		{name: "old-endpoint-late", first: refusesPosts, bad: refusesPosts, ends: true, listen: asEvents("data: " + real7("mark-web") + "\n\nevent: endpoint\ndata: /elsewhere\n\n")},

		{name: "modern", era: "modern", bad: complete, crosses: good, check: wants("Mcp-Name", "echo")},
		{name: "modern-mismatch-always", era: "modern", bad: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"real"}}`)
		}, crosses: `"code":-32020`, check: func(t *testing.T, v *visit) {
			if calls, lists := v.calls.Load(), v.lists.Load(); calls != 2 || lists != 2 {
				t.Errorf("the server gets %d calls and %d requests for its tools, want 2 and 2", calls, lists)
			}
		}},
		{name: "modern-name-not-ascii", era: "modern", call: named("\u00e9cho"), bad: complete, crosses: good, check: wants("Mcp-Name", "=?base64?w6ljaG8=?=")},
		{name: "modern-name-like-base64", era: "modern", call: named("=?base64?ZWNobw==?="), bad: complete, crosses: good, check: wants("Mcp-Name", "=?base64?PT9iYXNlNjQ/WldOb2J3PT0/PQ==?=")},
		{name: "modern-name-with-a-line-break", era: "modern", call: named(`a\r\nAuthorization: b`), bad: complete, crosses: `"error"`, check: func(t *testing.T, v *visit) {
			if v.calls.Load() > 0 {
				t.Errorf("the server gets the call, with %v", *v.header.Load())
			}
		}},
		{name: "modern-params", era: "modern", tools: `"tools":[` + strings.Join([]string{
			`{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`,
			`{"name":"mark-web1","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A\\r\\nAuthorization"}}}}`,
			`{"name":"mark-web2","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}}}`,
			`{"name":"mark-web3","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`,
			`{"name":"mark-web4","inputSchema":{"type":"object","x-mcp-header":"A"}}`,
		}, ",") + `]`, call: mcall("7", `"region":"eu\r\nAuthorization: b"`), bad: complete, crosses: good, check: func(t *testing.T, v *visit) {
			wants("Mcp-Param-Region", "=?base64?ZXUNCkF1dGhvcml6YXRpb246IGI=?=")(t, v)
			wants("Authorization")(t, v)
		}},
		{name: "modern-listen-without-end", era: "modern", bad: complete, crosses: good, check: listensOn},
		{name: "modern-session", era: "modern", bad: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Mcp-Session-Id", "mark-web")
			complete(w, r)
		}, crosses: good, check: func(t *testing.T, v *visit) {
			if got := v.header.Load().Values("Mcp-Session-Id"); got != nil {
				t.Errorf("the server gets the session %q", got)
			}
		}},
	}
}

// listensOn opens a subscription that says something all the time. Calls are answered meanwhile, and the
// agent can end it.
func listensOn(t *testing.T, v *visit) {
	v.send(t, request("70", "subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true}}`))
	said := 0
	for range 100 {
		i, err := v.shim.Agent.Await(said, rig.Timeout, func(line []byte) bool { return bytes.Contains(line, []byte("list_changed")) })
		if err != nil {
			t.Fatalf("what the server says does not arrive: %v", err)
		}
		said = i + 1
	}
	if got := v.exchange(t, mcall("71", "")); !strings.Contains(got, `"content":[]`) {
		t.Errorf("a call meanwhile is answered %.300s", got)
	}
	v.send(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":70}}`)
	select {
	case <-v.unheard:
	case <-time.After(rig.Timeout):
		t.Error("the subscription is cancelled, and the server still says something")
	}
}

// begin begins the session as its era has it.
func (v *visit) begin(t *testing.T) {
	t.Helper()
	if v.era == "modern" {
		v.exchange(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`)
		return
	}
	v.exchange(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`)
	v.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (v *visit) send(t *testing.T, line string) {
	t.Helper()
	if err := v.shim.Send([]byte(line + "\n")); err != nil {
		t.Fatalf("send %.200s: %v", line, err)
	}
}

// exchange sends a request and returns its answer.
func (v *visit) exchange(t *testing.T, line string) string {
	t.Helper()
	v.send(t, line)
	m, _ := readMessage([]byte(line))
	i, err := v.shim.Agent.Await(0, rig.Timeout, answerTo(m.raw("id")))
	if err != nil {
		t.Fatalf("%.200s is not answered: %v\nthe shim said: %s", line, err, v.shim.Stderr())
	}
	all, _ := v.shim.Agent.Since(i)
	return string(all[0])
}

func answerTo(id string) func([]byte) bool {
	return func(got []byte) bool {
		m, err := readMessage(got)
		return err == nil && !m.has("method") && m.raw("id") == id
	}
}

// play plays the case.
func (v *visit) play(t *testing.T) {
	v.begin(t)
	call, next := badCall, goodCall
	if v.era == "modern" {
		call, next = mcall("7", ""), mcall("8", "")
	}
	if v.call != "" {
		call = v.call
	}
	got := v.exchange(t, call)
	switch {
	case v.crosses != "" && !strings.Contains(got, v.crosses):
		t.Errorf("the agent gets %.300s, want %s", got, v.crosses)
	case v.crosses == "" && !strings.Contains(got, `"error":{"code":-31012`):
		t.Errorf("the agent gets %.300s, want an error of ours", got)
	}
	if !v.ends {
		got := v.exchange(t, next)
		// Some servers close the connection after the bad answer and don't say so. What is sent on it meanwhile
		// may have been executed for all that is known, and so is not sent again.
		for id := 9; id < 12 && strings.Contains(got, "may have been executed"); id++ {
			got = v.exchange(t, strings.Replace(next, `"id":8`, fmt.Sprintf(`"id":%d`, id), 1))
		}
		if !strings.Contains(got, `"content":[]`) {
			t.Errorf("the next call is answered %.300s", got)
		}
	}
	if v.check != nil {
		v.check(t, v)
	}
	time.Sleep(late)
	all, tail := v.shim.Agent.Since(0)
	answers := 0
	for _, line := range append(all, tail) {
		if bytes.Contains(line, []byte("mark-web")) {
			t.Errorf("the agent gets %.300s", line)
		}
		if answerTo("7")(line) {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("the call is answered %d times", answers)
	}
}

// maxDaemonMB is what the daemon may have resident at its peak, whatever servers say.
const maxDaemonMB = 250

// TestWeb plays servers that lie in HTTP or in what it carries, or never stop. The call gets an error, and
// nothing else is hurt: the session continues, others are served meanwhile, and the daemon keeps nothing.
func TestWeb(t *testing.T) {
	fixture := rig.NewFixture(t)
	fixture.Configure(policy)
	fixture.Shipped = true
	fixture.StartDaemon()
	visits := map[string]*visit{}
	addresses := map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visits[strings.TrimPrefix(r.URL.Path, "/")]
		if v == nil {
			t.Errorf("%s %s is asked for", r.Method, r.URL)
			return
		}
		v.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	cases := append(slices.Concat(webCases(), eraCases()), webCase{name: "bystander"})
	for _, c := range cases {
		visits[c.name], addresses[c.name] = &visit{webCase: c, unheard: make(chan struct{})}, s.URL+"/"+c.name
	}
	env := behind.Session(t, fixture, addresses)
	watch := watchDaemon(t, fixture)
	stop := bystanders(t, fixture, env)
	t.Run("all", func(t *testing.T) {
		for _, c := range cases {
			if c.bad == nil {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				v := visits[c.name]
				v.shim = fixture.Shim(t, rig.Options{Server: c.name, Profile: "production", Env: append(slices.Clone(env), "THOUGHTGATE_PATIENCE=7s"), Remote: true}) // which is how long a login is waited for
				v.play(t)
			})
		}
	})
	stop()
	watch()
}

// bystanders are sessions that nothing may happen to, one with a server on pipes and one with a server
// behind an address. stop ends them.
func bystanders(t *testing.T, fixture *rig.Fixture, env []string) (stop func()) {
	t.Helper()
	pipes := &visit{shim: fixture.Shim(t, rig.Options{Server: "pipes"})}
	if err := pipes.shim.Join(); err != nil {
		t.Fatal(err)
	}
	web := &visit{shim: fixture.Shim(t, rig.Options{Server: "bystander", Env: env, Remote: true})}
	web.begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	every := func(f func(n int) error) {
		for n := 100; ; n++ {
			began := time.Now()
			if err := f(n); err != nil {
				ended <- err
				return
			}
			if took := time.Since(began); took > promptly {
				ended <- fmt.Errorf("a call of somebody else took %v", took)
				return
			}
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	ask := func(v *visit, n int) error {
		if err := v.shim.Send([]byte(call(fmt.Sprint(n), "") + "\n")); err != nil {
			return err
		}
		return nil
	}
	await := func(b *rig.Inbox, from *int, n int) (err error) { // later calls are not looked for in what came before
		*from, err = b.Await(*from, promptly, answerTo(fmt.Sprint(n)))
		return err
	}
	var webAnswers, pipesCalls, pipesAnswers int
	go every(func(n int) error { return errors.Join(ask(web, n), await(web.shim.Agent, &webAnswers, n)) })
	go every(func(n int) (err error) {
		if err := ask(pipes, n); err != nil {
			return err
		}
		pipesCalls, err = pipes.shim.Server.Await(pipesCalls, promptly, func(line []byte) bool { return bytes.Contains(line, fmt.Appendf(nil, `"id":%d,`, n)) })
		if err != nil {
			return err
		}
		if err := pipes.shim.Server.Send([]byte(answer(fmt.Sprint(n), "good") + "\n")); err != nil {
			return err
		}
		return await(pipes.shim.Agent, &pipesAnswers, n)
	})
	return func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("while other servers were hostile: %v", err)
			}
		}
		for _, v := range []*visit{pipes, web} {
			v.shim.HangUp()
			if _, ok := v.shim.Wait(rig.Timeout); !ok {
				t.Error("the shim of a bystander does not end")
			}
		}
	}
}

// watchDaemon notes what the daemon holds. The returned function compares that with what it holds when
// all sessions have ended, and how much memory it has needed.
func watchDaemon(t *testing.T, fixture *rig.Fixture) func() {
	t.Helper()
	c, err := client.Dial(t.Context(), client.WithSocket(fixture.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	goroutines := func() (n int) {
		samples, err := c.MetricSamples(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if s.GetName() == "go_goroutines" {
				n = int(s.GetValue())
			}
		}
		return n
	}
	descriptors := func() int {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", fixture.Daemon.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	peak := func() int64 {
		n, err := fixture.Daemon.PeakMemory()
		if err != nil {
			t.Fatal(err)
		}
		return n >> 20
	}
	goroutinesBefore, descriptorsBefore, peakBefore := goroutines(), descriptors(), peak()
	return func() {
		t.Helper()
		t.Logf("the daemon needed %d MB at its peak, and %d before; goroutines %d and %d before", peak(), peakBefore, goroutines(), goroutinesBefore)
		if peak := peak(); peak > maxDaemonMB {
			t.Errorf("the daemon needed %d MB, of %d", peak, maxDaemonMB)
		}
		const more = 4 // what the runtime and the queries of this function need
		for end := time.Now().Add(rig.Timeout); ; time.Sleep(50 * time.Millisecond) {
			g, d := goroutines(), descriptors()
			if g <= goroutinesBefore+more && d <= descriptorsBefore+more {
				return
			}
			if time.Now().After(end) {
				t.Errorf("the daemon has %d goroutines and %d descriptors, and had %d and %d before", g, d, goroutinesBefore, descriptorsBefore)
				return
			}
		}
	}
}
