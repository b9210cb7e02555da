package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fixture is a dashboard that runs, on a daemon of the test's.
type fixture struct {
	t       *testing.T
	daemon  *consoletest.Daemon
	console *consoletest.Console
	s       *server
	base    string
	ended   chan error // what run returned

	cookie *http.Cookie // of the browser that was let in
	key    string
}

// start runs a dashboard until the test ends, on a daemon that each of change has changed.
func start(t *testing.T, change ...func(*consoletest.Daemon)) *fixture {
	t.Helper()
	return startOn(t, func(d *consoletest.Daemon) {
		d.Status, d.Set = consoletest.Healthy(), consoletest.InDetail()
		d.Approvals = consoletest.Questions()
		d.Records = consoletest.Recorded()
		d.Sessions, d.Servers, d.Pins = consoletest.OpenSessions(), consoletest.SeenServers(), consoletest.SeenPins()
		for _, w := range d.Set.Detail.Workflows {
			if w.GetName() == "ops" { // that of the samples
				w.Surfaces = []string{"terminal", "page"}
			}
		}
		for _, c := range change {
			c(d)
		}
	})
}

// startOn runs a dashboard on a daemon that fill fills. From then on the dashboard asks the daemon, so that a test
// changes what the daemon says only with edit.
func startOn(t *testing.T, fill func(*consoletest.Daemon)) *fixture {
	t.Helper()
	f := &fixture{t: t, daemon: consoletest.Start(t), ended: make(chan error, 1)}
	fill(f.daemon)
	f.console = consoletest.New(f.daemon.Socket)
	c, err := client.Dial(t.Context(), client.WithSocket(f.daemon.Socket))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.base = "http://" + l.Addr().String()
	f.s = newServer(&app{f.console.App}, c, l.Addr().String())
	ctx, stop := context.WithCancel(context.Background())
	go func() { f.ended <- f.s.run(ctx, l, true) }()
	t.Cleanup(func() {
		stop()
		if err := <-f.ended; err != nil && !errors.Is(err, errDoor) {
			t.Errorf("the dashboard ended: %v", err)
		}
		c.Close()
	})
	return f
}

// send makes a request as some program would, with headers as "name: value".
func (f *fixture) send(method, path, body string, headers ...string) (int, http.Header, string) {
	f.t.Helper()
	r, err := http.NewRequest(method, f.base+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: time.Minute}
	defer plain.CloseIdleConnections()
	resp, err := plain.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

const form = "Content-Type: application/x-www-form-urlencoded"

// knock brings a secret as the local file does.
func (f *fixture) knock(pass string, headers ...string) (int, http.Header, string) {
	f.t.Helper()
	return f.send("POST", "/enter", url.Values{"pass": {pass}}.Encode(), append([]string{form, "Origin: null"}, headers...)...)
}

// enter lets this test in, as the person's browser.
func (f *fixture) enter() {
	f.t.Helper()
	code, header, text := f.knock(f.s.door.pass)
	cookies := (&http.Response{Header: header}).Cookies()
	_, rest, _ := strings.Cut(text, `name="key" content="`)
	f.key, _, _ = strings.Cut(rest, `"`)
	if code != http.StatusOK || len(cookies) != 1 || f.key == "" {
		f.t.Fatalf("not let in: %d, %q, %s", code, cookies, text)
	}
	f.cookie = cookies[0]
}

// papers are the headers of the browser that was let in.
func (f *fixture) papers() []string {
	return []string{"Cookie: " + f.cookie.Name + "=" + f.cookie.Value, keyHeader + ": " + f.key, "Origin: " + f.base, "Sec-Fetch-Site: same-origin", "Content-Type: application/json"}
}

// get asks for something behind the door.
func (f *fixture) get(path string, to any) {
	f.t.Helper()
	code, _, text := f.send("GET", path, "", f.papers()...)
	if code != http.StatusOK {
		f.t.Fatalf("GET %s: %d %s", path, code, text)
	}
	if err := json.Unmarshal([]byte(text), to); err != nil {
		f.t.Fatalf("GET %s: %v: %s", path, err, text)
	}
}

// post sends something to behind the door, and returns the status and the answer.
func (f *fixture) post(path string, body any) (int, string) {
	f.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	code, _, answer := f.send("POST", path, string(text), f.papers()...)
	return code, answer
}

// edit changes the daemon.
func (f *fixture) edit(change func(*consoletest.Daemon)) {
	f.daemon.Mu.Lock()
	defer f.daemon.Mu.Unlock()
	change(f.daemon)
}

// decisions returns the answers that came to the daemon.
func (f *fixture) decisions() []*pb.Decision {
	f.daemon.Mu.Lock()
	defer f.daemon.Mu.Unlock()
	return append([]*pb.Decision(nil), f.daemon.Decisions...)
}

// firstUpdate returns what a new reader of the stream gets first, once that contains each text of want.
func (f *fixture) firstUpdate(want ...string) []byte {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		got := f.nowFirst()
		if !slices.ContainsFunc(want, func(text string) bool { return !bytes.Contains(got, []byte(text)) }) {
			return got
		}
	}
	f.t.Fatalf("the stream does not begin with %q", want)
	return nil
}

func (f *fixture) nowFirst() []byte {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", f.base+"/api/stream", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range f.papers() {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var all []byte
	for part := make([]byte, 4096); !bytes.Contains(all, []byte("\n\n")); {
		n, err := resp.Body.Read(part)
		if all = append(all, part[:n]...); err != nil {
			f.t.Fatalf("%d %v: %s", resp.StatusCode, err, all)
		}
	}
	first, _, _ := bytes.Cut(all, []byte("\n\n"))
	return first
}

// manyCalls returns the record of the n-th of many calls.
func manyCalls(n uint64) *record.Record {
	return &record.Record{
		Seq: 1000 + n, Kind: record.KindCall, Verdict: "forward", Agent: "claude-code", Server: "files", Method: "tools/call", Tool: fmt.Sprint("call-", n), Time: time.Now(),
	}
}

// sampleGrants gives a daemon a grant in force, and one that has ended.
func sampleGrants(d *consoletest.Daemon) {
	d.Grants = []*pb.Grant{
		{Id: "G-3", Agent: "claude-code", Server: "github", Method: "tools/call", Tool: "create_issue", Created: consoletest.At(-time.Hour), Expires: consoletest.At(time.Hour), Times: 5, Used: 2, Session: "s-5d41", Match: pb.GrantMatch_GRANT_MATCH_TOOL},
		{Id: "G-2", Agent: "claude-code", Server: "agent", Method: "tools/call", Tool: "Bash", Created: consoletest.At(-3 * time.Hour), Expires: consoletest.At(-time.Hour), Ended: consoletest.At(-time.Hour), End: "expired",
			Match: pb.GrantMatch_GRANT_MATCH_VERB, Grain: &pb.Grain{Program: "git", Verb: "push", Folder: "/home/ana/shop"}},
	}
}
