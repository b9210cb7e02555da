package phone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fixture runs a phone between a daemon and an ntfy server of the test.
type fixture struct {
	*testing.T
	daemon *consoletest.Daemon
	ntfy   *fakeNtfy
	s      *settings
	o      Options
	log    rig.Buffer
	ended  chan error // receives what Run returns
}

const (
	open     = pb.ApprovalState_APPROVAL_STATE_OPEN
	approved = pb.ApprovalState_APPROVAL_STATE_APPROVED
)

// newFixture sets a phone up whose messages have the arguments of calls if values is set.
func newFixture(t *testing.T, values bool) *fixture {
	t.Helper()
	t.Parallel()
	dir := consoletest.ShortDir(t)
	f := &fixture{T: t, ntfy: newFakeNtfy(t), daemon: &consoletest.Daemon{Socket: filepath.Join(dir, "control.sock"), Status: &pb.StatusResponse{}}}
	f.daemon.Set = consoletest.Workflows("phone")
	f.daemon.Sample = consoletest.Questions()[1]
	f.daemon.Sample.Server, f.daemon.Sample.Facts = "files", []string{"secret: a key of example.com (content)", "outside: /home/ana/notes.txt"}
	t.Cleanup(f.daemon.Serve(t))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(f.log.String())
		}
	})
	f.setUp(f.ntfy.URL, values)
	f.o.pace = pace{gathering: time.Millisecond, between: time.Millisecond, summaries: time.Millisecond, retryFirst: time.Millisecond, retryLast: 20 * time.Millisecond, reports: time.Nanosecond, idle: time.Minute}
	return f
}

// setUp sets the phone up for a server.
func (f *fixture) setUp(server string, values bool) {
	f.Helper()
	f.o.Paths = sock.Paths{Config: f.TempDir(), State: f.TempDir()}
	var err error
	if f.s, err = newSettings(server, "tk_secret", values); err == nil {
		err = f.s.save(settingsFile(f.o.Paths))
	}
	if err != nil {
		f.Fatal(err)
	}
}

// start runs the phone until the test ends or stop is called.
func (f *fixture) start() (stop func()) {
	f.Helper()
	c, err := client.Dial(context.Background(), client.WithSocket(f.daemon.Socket))
	if err != nil {
		f.Fatal(err)
	}
	o := f.o
	o.Daemon, o.Log, o.Now = c, slog.New(slog.NewJSONHandler(&f.log, nil)), time.Now
	ctx, cancel := context.WithCancel(context.Background())
	f.ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		f.ended <- Run(ctx, o)
		close(done)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(time.Minute):
			f.Error("the phone does not end")
		}
		c.Close()
	})
	f.Cleanup(stop)
	return stop
}

// ends ends a question as if it had been answered at a terminal.
func (f *fixture) ends(id string) {
	f.daemon.Change(id, func(q *pb.Approval) {
		q.State, q.Arguments, q.Decider, q.Surface, q.Note = approved, nil, "pid 7 /usr/bin/tgctl on /dev/pts/3", "terminal", "it is notes.txt"
	})
}

// sees waits for the last message about something, and for what it says.
func (f *fixture) sees(title string, texts ...string) *published {
	f.Helper()
	var found *published
	await(f.T, fmt.Sprintf("a message %q with %q", title, texts), func() bool {
		found = nil
		for _, m := range f.ntfy.messages(f.s.Topic) {
			if strings.Contains(m.Title, title) && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(m.Message, text) }) {
				found = m
			}
		}
		return found != nil
	})
	return found
}

// decides waits for answers.
func (f *fixture) decides(want ...string) {
	f.Helper()
	await(f.T, fmt.Sprintf("the answers %q", want), func() bool { return slices.Equal(f.daemon.Decided(), want) })
}

// reports waits for a report.
func (f *fixture) reports(id, why string) {
	f.Helper()
	await(f.T, "a report that "+why, func() bool {
		f.daemon.Mu.Lock()
		defer f.daemon.Mu.Unlock()
		return slices.ContainsFunc(f.daemon.Reports, func(r *pb.ReportRequest) bool {
			return r.GetId() == id && r.GetSurface() == "phone" && strings.Contains(r.GetReason(), why)
		})
	})
}

func (f *fixture) logs(text string) {
	f.Helper()
	await(f.T, "a line in the log with "+text, func() bool { return strings.Contains(f.log.String(), text) })
}

// A button's answer reaches the daemon with the subject of the question that was shown, and the phone shows the end.
func TestAnswers(t *testing.T) {
	for _, test := range []struct{ button, want, end string }{
		{"Approve", "ANSWER_APPROVE A-7 the subject of A-7 phone", "A-7 approved by phone (claim); write_file"},
		{"Deny", "ANSWER_DENY A-7 the subject of A-7 phone", "A-7 denied by phone (claim); write_file"},
	} {
		t.Run(test.button, func(t *testing.T) {
			f := newFixture(t, true)
			f.daemon.Ask("ops", "A-7")
			f.start()
			m := f.sees("A-7: write_file on files", `"path": "/home/ana/notes.txt"`, `\u{202e}`, "secret: a key of example.com", "until")
			if m.labels() != "Approve Deny Show" || m.Priority != priorityHigh || m.Token != "tk_secret" {
				t.Errorf("buttons %q, priority %d, token %q", m.labels(), m.Priority, m.Token)
			}
			f.ntfy.press(m.button(test.button))
			f.decides(test.want)
			end := f.sees("A-7", test.end)
			if end.labels() != "" || end.Priority != priorityMin || end.Sequence != m.Sequence {
				t.Errorf("the end has the buttons %q, priority %d, and replaces %q of %q", end.labels(), end.Priority, end.Sequence, m.Sequence)
			}
			if answer := f.ntfy.messages(f.s.Answers)[0]; strings.Contains(fmt.Sprint(answer.Header), "tk_secret") {
				t.Errorf("the token is with the phone: %v", answer.Header)
			}
		})
	}
}

// Approve is offered only if an approval counts, and if all of the call can be read.
func TestOffersNoMoreThanCounts(t *testing.T) {
	long := func(n int) func(*pb.Approval) {
		return func(q *pb.Approval) {
			q.Arguments = []byte(`{"name":"x","arguments":{"content":"` + strings.Repeat("rm -rf / ", n) + `"}}`)
		}
	}
	for _, test := range []struct {
		name, workflow string
		values         bool
		change         func(*pb.Approval)
		says           string
	}{
		{"without values", "ops", false, nil, "Its arguments are not sent, so it is approved in a terminal: tgctl approvals show A-7"},
		{"the workflow leaves the phone out", "term", true, nil, "To approve it, use a terminal"},
		{"the workflow requires presence", "presence", true, nil, "in a terminal: tgctl approvals approve A-7"},
		{"the question needs presence", "ops", true, func(q *pb.Approval) { q.Level = approval.LevelPresence }, "Approval needs your passphrase or a code"},
		{"it asks for a login", "ops", true, func(q *pb.Approval) { q.Method, q.Tool, q.Server = "thoughtgate/login", "", "hub" }, "Nobody can approve this. Log in, in a terminal: tgctl login hub"},
		{"there is no such workflow any more", "gone", true, nil, "To approve it, use a terminal"},
		{"the arguments are long", "ops", true, long(150), "Too long to approve here"},
		{"the arguments are very long", "ops", true, long(5000), "Too long to approve here"},
		{"the daemon tells of the beginning of the arguments only", "ops", true, func(q *pb.Approval) { q.ArgumentsBytes = 9_014 }, "Too long to approve here"},
		{"the tool's name is long", "ops", true, func(q *pb.Approval) { q.Tool = strings.Repeat("write_", 30) }, "Too long to approve here"},
		{"the facts are many", "ops", true, func(q *pb.Approval) {
			q.Facts = slices.Repeat([]string{"destroys: " + strings.Repeat("files ", 20)}, 20)
		}, "Too long to approve here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, test.values)
			f.daemon.Ask(test.workflow, "A-7")
			if test.change != nil {
				f.daemon.Change("A-7", test.change)
			}
			f.start()
			m := f.sees("A-7", test.says)
			if m.labels() != "Deny Show" || len(m.Message) > maxText+200 {
				t.Errorf("buttons %q, %d bytes:\n%s", m.labels(), len(m.Message), m.Message)
			}
		})
	}
}

// Without values nothing leaves that follows from the arguments, also when Show is pressed, and at the end.
func TestValuesStay(t *testing.T) {
	f := newFixture(t, false)
	f.daemon.Ask("ops", "A-7")
	f.daemon.Change("A-7", func(q *pb.Approval) { q.Method, q.Tool = "resources/read", "file:///home/ana/notes.txt" })
	f.daemon.Ask("ops", "A-8")
	f.start()
	f.sees("A-7: resources/read on files", "secret: carries what looks like a key, token or password")
	f.ntfy.press(f.sees("A-8: write_file on files").button("Show"))
	shown := f.sees("A-8", "outside: leads out of the project", "workflow: ops", "session: s-5d41")
	if shown.labels() != "Deny" {
		t.Errorf("buttons %q", shown.labels())
	}
	f.ends("A-7")
	f.sees("A-7", "A-7 approved by you (terminal pts/3); resources/read")
	for _, m := range f.ntfy.messages(f.s.Topic) {
		if text := m.Title + m.Message; strings.Contains(text, "notes") || strings.Contains(text, "one") && !strings.Contains(text, "phone") || strings.Contains(text, "example.com") {
			t.Errorf("a value has left:\n%s\n%s", m.Title, m.Message)
		}
	}
	if len(f.daemon.Decided()) > 0 {
		t.Errorf("Show has answered: %q", f.daemon.Decided())
	}
}

// Questions that are asked on Slack are not sent.
func TestSlackStaysOnSlack(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("team", "A-6")
	f.daemon.Ask("ops", "A-7")
	f.start()
	f.ntfy.press(f.sees("A-7").button("Deny"))
	f.sees("A-7", "denied")
	for _, m := range f.ntfy.messages(f.s.Topic) {
		if strings.Contains(m.Title, "A-6") {
			t.Errorf("sent: %s", m.Title)
		}
	}
}

// What has no valid code is refused and reported: forged, for another button, question, subject or set-up, malformed
// and too long. A code counts once. None of them ends the stream.
func TestRefusesWhatIsNotFromAButton(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("ops", "A-7", "A-8")
	f.start()
	m, other := f.sees("A-7"), f.sees("A-8")
	deny, approve := m.button("Deny"), m.button("Approve")
	code := func(a *action) string { return strings.Fields(a.Body)[2] }
	foreign, err := newSettings(f.s.Server, "", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ body, id, why string }{
		{"approve A-7 " + strings.Repeat("0", 2*codeBytes), "A-7", "no valid code"},
		{"approve A-7 " + code(deny), "A-7", "no valid code"},
		{"approve A-8 " + code(approve), "A-8", "no valid code"},
		{"approve A-7 " + code(approve)[:20], "A-7", "no valid code"},
		{"approve A-7 " + f.s.code("approve", "A-7", []byte("another subject")), "A-7", "no valid code"},
		{"approve A-7 " + foreign.code("approve", "A-7", []byte("the subject of A-7")), "A-7", "no valid code"},
		{"approve A-99 " + code(approve), "", "not on the phone"},
		{"grant A-7 " + f.s.code("grant", "A-7", []byte("the subject of A-7")), "", "not from a button"},
		{approve.Body + " " + code(deny), "", "not from a button"},
		{approve.Body + strings.Repeat(" ", maxAnswerBytes), "", "not from a button"},
		{"\x1b[2J", "", "not from a button"},
	} {
		f.daemon.Mu.Lock()
		f.daemon.Reports = nil
		f.daemon.Mu.Unlock()
		forged := *approve
		forged.Body = test.body
		f.ntfy.press(&forged)
		f.reports(test.id, test.why)
		if got := f.daemon.Decided(); len(got) > 0 {
			t.Fatalf("%q has answered: %q", test.body, got)
		}
	}
	f.ntfy.press(other.button("Deny"))
	f.decides("ANSWER_DENY A-8 the subject of A-8 phone")
	f.ntfy.press(other.button("Deny"))
	f.reports("A-8", "came again")
	f.ntfy.press(approve)
	f.decides("ANSWER_DENY A-8 the subject of A-8 phone", "ANSWER_APPROVE A-7 the subject of A-7 phone")
}

// Whoever answers too late is told how the question had ended.
func TestTooLate(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("ops", "A-7")
	f.start()
	m := f.sees("A-7")
	f.daemon.Mu.Lock()
	f.daemon.DecideErr = client.NewError(client.ReasonDecided, "it was approved")
	f.daemon.Mu.Unlock()
	f.ends("A-7")
	f.ntfy.press(m.button("Deny"))
	late := f.sees("Too late to deny A-7", "A-7 approved by you (terminal pts/3); write_file")
	if late.Priority != priorityNormal || strings.Contains(late.Message, "notes.txt") {
		t.Errorf("priority %d:\n%s", late.Priority, late.Message)
	}
	f.reports("A-7", "too late")
}

// An answer that the daemon does not take can be given again, and the phone says why it was not taken.
func TestNotTaken(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("ops", "A-7")
	f.start()
	m := f.sees("A-7")
	refuse := func(err error) {
		f.daemon.Mu.Lock()
		defer f.daemon.Mu.Unlock()
		f.daemon.DecideErr = err
	}
	refuse(client.NewError(client.ReasonForbidden, "an approval from \"phone\" is not allowed"))
	f.ntfy.press(m.button("Approve"))
	again := f.sees("A-7", "Nothing was decided", "not allowed")
	f.reports("A-7", "not allowed")
	refuse(nil)
	f.ntfy.press(again.button("Approve"))
	f.sees("A-7", "A-7 approved by phone (claim)")
}

// A restart sends nothing twice, takes answers that were given meanwhile, and shows ends that came meanwhile.
func TestRestart(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("ops", "A-7", "A-8", "A-9")
	stop := f.start()
	seven := f.sees("A-7")
	f.sees("A-8")
	f.sees("A-9")
	for _, id := range []string{"A-7", "A-8", "A-9"} {
		f.logs(`"msg":"sent","question":"` + id + `"`) // and has noted it
	}
	stop()
	before := len(f.ntfy.messages(f.s.Topic))
	f.ntfy.press(seven.button("Deny"))
	f.ends("A-8")
	f.start()
	f.decides("ANSWER_DENY A-7 the subject of A-7 phone")
	f.sees("A-7", "A-7 denied")
	f.sees("A-8", "A-8 approved by you")
	if got := len(f.ntfy.messages(f.s.Topic)); got != before+2 {
		for _, m := range f.ntfy.messages(f.s.Topic)[before:] {
			t.Logf("%s: %s", m.Title, m.Message)
		}
		t.Errorf("%d messages after %d, of which two are new", got, before)
	}
	f.ntfy.press(seven.button("Deny")) // of which the previous run knew, and this one not any more
	f.reports("A-7", "came again")
}

// When the stream is cut, answers that came meanwhile are not lost.
func TestReconnects(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("ops", "A-7", "A-8")
	f.start()
	seven, eight := f.sees("A-7"), f.sees("A-8")
	f.ntfy.press(seven.button("Deny"))
	f.decides("ANSWER_DENY A-7 the subject of A-7 phone")
	f.ntfy.mu.Lock()
	f.ntfy.strangely = status(http.StatusBadGateway)
	f.ntfy.mu.Unlock()
	f.ntfy.cutStreams()
	f.logs("it answers 502")
	f.ntfy.press(eight.button("Deny"))
	f.ntfy.mu.Lock()
	f.ntfy.strangely = nil
	f.ntfy.mu.Unlock()
	f.decides("ANSWER_DENY A-7 the subject of A-7 phone", "ANSWER_DENY A-8 the subject of A-8 phone")
}

// A server that refuses a message gets it again, as far as that can help.
func TestServerErrors(t *testing.T) {
	var elsewhere []string
	other := newFakeNtfy(t)
	other.strangely = func(_ http.ResponseWriter, r *http.Request) { elsewhere = append(elsewhere, r.URL.Path) }
	for _, test := range []struct {
		name    string
		answers []http.HandlerFunc
		logs    string
		then    string // text of the message that is accepted
	}{
		{"500 and 503", []http.HandlerFunc{status(500), status(503)}, "it answers 503: as the\\\\u{1b}[2J test wants", "one"},
		{"too large", []http.HandlerFunc{status(413)}, "too large for it", "Its arguments are not sent"},
		{"rate", []http.HandlerFunc{status(429, "Retry-After", "1")}, `"next_try_in":"1s"`, "one"},
		{"another place", []http.HandlerFunc{status(307, "Location", other.URL+"/x?topic")}, "it leads to " + other.URL + ", which is not followed", "one"},
		{"not of ntfy", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Log in to the hotel's network") }}, "not one of ntfy", "one"},
		{"without end", []http.HandlerFunc{endless}, "not one of ntfy", "one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, true)
			f.ntfy.refuseOnce(test.answers...)
			f.daemon.Ask("ops", "A-7")
			f.start()
			f.logs(test.logs)
			f.sees("A-7", test.then)
			if strings.Contains(f.log.String(), f.s.Topic) || strings.Contains(f.log.String(), "tk_secret") {
				t.Errorf("the log has the topic or the token:\n%s", f.log.String())
			}
		})
	}
	t.Cleanup(func() {
		if len(elsewhere) > 0 || len(other.all) > 0 {
			t.Errorf("the other server got %q, %v", elsewhere, other.all)
		}
	})
}

// endless answers 100 MB and more, without a line break.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
	chunk := []byte(strings.Repeat(`{"x":`, 20_000))
	for range 1000 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// What a server does not allow ends the phone, with what to do.
func TestNotAllowed(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		f := newFixture(t, true)
		f.ntfy.token = "tk_other"
		f.start()
		if err := <-f.ended; err == nil || !strings.Contains(err.Error(), "read answers: the ntfy server: it does not allow that") {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("publish", func(t *testing.T) {
		f := newFixture(t, true)
		f.ntfy.refuseOnce(status(401))
		f.daemon.Ask("ops", "A-7")
		f.start()
		if err := <-f.ended; err == nil || !strings.Contains(err.Error(), "publish questions: the ntfy server: it does not allow that") {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("no set-up", func(t *testing.T) {
		f := newFixture(t, true)
		f.o.Paths.Config = t.TempDir()
		f.start()
		if err := <-f.ended; !errors.Is(err, errNotSetUp) {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("a second one", func(t *testing.T) {
		f := newFixture(t, true)
		f.start()
		f.logs("asking on the phone")
		f.start()
		if err := <-f.ended; err == nil || !strings.Contains(err.Error(), "already runs") {
			t.Errorf("ended with %v", err)
		}
	})
}

// A hostile stream is ended, and neither fills the memory nor answers anything. What comes on a later one counts.
func TestHostileStream(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		logs   string
	}{
		{"a line of 100 MB", endless, "a line of more than"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>\n\n\n") }, "not a message of ntfy"},
		{"other JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[[1,2]]\n") }, "not a message of ntfy"},
		{"an id that is none", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"id":"a\nb","event":"message","message":"approve A-7 x"}`+"\n")
		}, "without an id of ntfy"},
		{"slow", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		}, "no complete line"},
		{"elsewhere", status(302, "Location", "https://other.example/x"), "it leads to https://other.example"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, true)
			f.o.pace.idle = 200 * time.Millisecond
			f.ntfy.strangely = test.answer
			f.daemon.Ask("ops", "A-7")
			f.start()
			m := f.sees("A-7")
			f.logs(test.logs)
			if got := f.daemon.Decided(); len(got) > 0 {
				t.Errorf("answered: %q", got)
			}
			f.ntfy.mu.Lock()
			f.ntfy.strangely = nil
			f.ntfy.mu.Unlock()
			f.ntfy.press(m.button("Deny"))
			f.decides("ANSWER_DENY A-7 the subject of A-7 phone")
		})
	}
}

// More than a few questions at once become one message, and come one by one as others are answered.
func TestMany(t *testing.T) {
	f := newFixture(t, true)
	for i := range maxAlone + 2 {
		f.daemon.Ask("ops", fmt.Sprint("A-", i+1))
	}
	f.start()
	f.sees("2 more questions wait", "tgctl queue")
	f.ntfy.press(f.sees("A-1").button("Deny"))
	f.sees("A-6: write_file")
	f.sees("1 more question waits")
	f.ends("A-7")
	f.sees("No more questions wait")
	for _, m := range f.ntfy.messages(f.s.Topic) {
		if strings.HasPrefix(m.Title, "A-7") {
			t.Errorf("sent: %s", m.Title)
		}
	}
}

// A question whose agent has moved on can be answered, for the repeated call.
func TestMovedOn(t *testing.T) {
	f := newFixture(t, true)
	f.daemon.Ask("ops", "A-7")
	f.start()
	f.sees("A-7")
	f.daemon.Change("A-7", func(q *pb.Approval) { q.Parked, q.Waiting = true, 0 })
	m := f.sees("A-7", string(approval.WhenMovedOn))
	if m.Priority != priorityLow {
		t.Errorf("priority %d", m.Priority)
	}
	f.ntfy.press(m.button("Approve"))
	f.decides("ANSWER_APPROVE A-7 the subject of A-7 phone")
}

// Past the limit within a time a question waits for a message of its own until that time is over.
func TestTooManyRecently(t *testing.T) {
	now := consoletest.Noon
	s, err := newSettings("https://ntfy.example", "", false)
	if err != nil {
		t.Fatal(err)
	}
	p := &phone{o: &Options{Now: func() time.Time { return now }, pace: usualPace}, s: s}
	q := consoletest.Questions()[1]
	waiting := []*card{{sent: sent{ID: q.GetId(), Subject: q.GetSubject()}, q: q, came: now.Add(-time.Second)}}
	for range maxRecent {
		p.recent = append(p.recent, now.Add(-time.Minute))
	}
	if j, _, err := p.nextNew(waiting, 0, nil); err != nil || j == nil || j.c != nil {
		t.Fatalf("the next message is %+v, %v, want the summary", j, err)
	}
	p.summary = p.summaryOf(1).Title
	if j, wait, err := p.nextNew(waiting, 0, nil); j != nil || wait != recentIn-time.Minute || err != nil {
		t.Errorf("the next message is %+v in %s, %v", j, wait, err)
	}
	now = now.Add(recentIn)
	if j, _, err := p.nextNew(waiting, 0, nil); err != nil || j == nil || j.c != waiting[0] {
		t.Errorf("the next message is %+v, %v, want the question", j, err)
	}
}
