package phone

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// published is a message that the fake server got.
type published struct {
	message
	ID     string
	Token  string // that came with it
	Header http.Header
}

// button returns the button with a label, nil if there is none.
func (m *published) button(label string) *action {
	for i, a := range m.Actions {
		if a.Label == label {
			return &m.Actions[i]
		}
	}
	return nil
}

// labels returns the labels of the buttons.
func (m *published) labels() string {
	var all []string
	for _, a := range m.Actions {
		all = append(all, a.Label)
	}
	return strings.Join(all, " ")
}

// fakeNtfy is a small ntfy server.
type fakeNtfy struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	last      int
	all       []*published
	changed   chan struct{} // closed and replaced when something was published
	token     string        // needed to read, if not empty
	locked    bool          // nobody publishes without the token
	streams   int           // open streams
	refusals  []http.HandlerFunc
	strangely http.HandlerFunc // answers requests for streams, if not nil
	cut       chan struct{}    // closed to end all streams
}

func newFakeNtfy(t *testing.T) *fakeNtfy {
	t.Helper()
	f := &fakeNtfy{t: t, changed: make(chan struct{}), cut: make(chan struct{})}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.cutStreams()
		f.Close()
	})
	return f
}

// refuseOnce has the next messages answered by these.
func (f *fakeNtfy) refuseOnce(with ...http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = append(f.refusals, with...)
}

// status answers with a status, and with what is in headers.
func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"code":%d01,"http":%d,"error":"as the\u001b[2J test wants"}`, code, code)
	}
}

func (f *fakeNtfy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	strangely, wrong := f.strangely, f.token != "" && token != f.token
	f.mu.Unlock()
	topic, isStream := strings.CutSuffix(strings.Trim(r.URL.Path, "/"), "/json")
	switch {
	case r.URL.Path == "/v1/health":
		fmt.Fprint(w, `{"healthy":true}`)
	case r.Method == http.MethodPost:
		f.take(w, r, topic, token)
	case !isStream:
		status(http.StatusNotFound)(w, r)
	case wrong:
		status(http.StatusForbidden)(w, r)
	case strangely != nil:
		strangely(w, r)
	default:
		f.stream(w, r, topic)
	}
}

// take takes a message, as JSON or for a topic.
func (f *fakeNtfy) take(w http.ResponseWriter, r *http.Request, topic, token string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<10+1))
	if err != nil || len(body) > 8<<10 {
		status(http.StatusRequestEntityTooLarge)(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &published{message: message{Topic: topic, Message: string(body)}, Token: token, Header: r.Header.Clone()}
	if topic == "" && json.Unmarshal(body, &p.message) != nil {
		status(http.StatusBadRequest)(w, r)
		return
	}
	if len(f.refusals) > 0 && topic == "" {
		refuse := f.refusals[0]
		f.refusals = f.refusals[1:]
		refuse(w, r)
		return
	}
	if f.locked && token != f.token {
		status(http.StatusForbidden)(w, r)
		return
	}
	f.last++
	p.ID = fmt.Sprintf("m%011d", f.last)
	f.all = append(f.all, p)
	close(f.changed)
	f.changed = make(chan struct{})
	fmt.Fprintf(w, `{"id":%q,"event":"message"}`, p.ID)
}

// stream sends the messages of a topic from a position on.
func (f *fakeNtfy) stream(w http.ResponseWriter, r *http.Request, topic string) {
	f.mu.Lock()
	f.streams++
	cut := f.cut
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.streams--
	}()
	line := func(event, id, text string) {
		body, _ := json.Marshal(map[string]any{"id": id, "time": 1, "event": event, "topic": topic, "message": text})
		fmt.Fprintf(w, "%s\n", body)
		_ = http.NewResponseController(w).Flush()
	}
	line("open", "o", "")
	since := r.URL.Query().Get("since")
	for {
		f.mu.Lock()
		var due []*published
		for _, p := range f.all {
			if p.Topic == topic && (since == "all" || p.ID > since) {
				due = append(due, p)
			}
		}
		changed := f.changed
		f.mu.Unlock()
		for _, p := range due {
			line("message", p.ID, p.Message)
			since = p.ID
		}
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// cutStreams ends all streams.
func (f *fakeNtfy) cutStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.cut)
	f.cut = make(chan struct{})
}

// messages returns what was published to a topic.
func (f *fakeNtfy) messages(topic string) []*published {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*published
	for _, p := range f.all {
		if p.Topic == topic {
			all = append(all, p)
		}
	}
	return all
}

// press does what a phone does when a button is pressed.
func (f *fakeNtfy) press(a *action) { publishAnswer(f.t, a) }

func publishAnswer(t *testing.T, a *action) {
	t.Helper()
	if a == nil {
		t.Fatal("there is no such button")
	}
	req, err := http.NewRequestWithContext(t.Context(), a.Method, a.URL, strings.NewReader(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range a.Headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the server answers %d to a button", resp.StatusCode)
	}
}

// await waits until holds returns true.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("this never came: " + what)
		}
	}
}
