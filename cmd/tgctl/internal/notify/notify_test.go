package notify

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/test/sessionbus"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// When a button is pressed, the daemon gets the answer with the subject of the question
// that was shown.
func TestNotifyAnswers(t *testing.T) {
	for _, test := range []struct{ button, want string }{
		{"Approve", "ANSWER_APPROVE A-7 the subject of A-7 desktop"},
		{"Deny", "ANSWER_DENY A-7 the subject of A-7 desktop"},
	} {
		t.Run(test.button, func(t *testing.T) {
			n := newNotifyTest(t)
			desk := startNotifier(t, n.bus, fullDesktop...)
			n.daemon.Ask("ops", "A-7")
			n.start()
			shown := desk.sees(t, "A-7")
			if got := shown.labels(); got != "Approve Deny Show" {
				t.Errorf("buttons %q", got)
			}
			desk.press(t, shown, test.button)
			n.decides(test.want)
			desk.gone(t, "A-7")
			n.logs("answered", "A-7", strings.ToLower(test.button))
			if got := n.daemon.Decided(); len(got) != 1 {
				t.Errorf("answers %q, want one", got)
			}
		})
	}
}

// Approve is offered only if an approval from the desktop counts. A press of a button
// that was not offered is refused, even if the notification daemon sends it.
func TestNotifyOffersNoMoreThanCounts(t *testing.T) {
	for _, test := range []struct {
		name, workflow string
		change         func(*pb.Approval)
		says           string
	}{
		{"the workflow leaves the desktop out", "term", nil, "To approve it, use a terminal: tgctl approvals show A-7"},
		{"the workflow requires presence", "presence", nil, "in a terminal: tgctl approvals approve A-7"},
		{"the question needs presence", "ops", func(q *pb.Approval) { q.Level = approval.LevelPresence }, "in a terminal: tgctl approvals approve A-7"},
		{"it asks for a login", "ops", func(q *pb.Approval) { q.Method, q.Tool, q.Server = "thoughtgate/login", "", "hub" }, "Nobody can approve this. Log in, in a terminal: tgctl login hub"},
		{"there is no such workflow any more", "gone", nil, "To approve it, use a terminal"},
		{"the arguments are long", "ops", func(q *pb.Approval) {
			q.Arguments = []byte(`{"name":"x","arguments":{"content":"` + strings.Repeat("rm -rf / ", 60) + `"}}`)
		}, "Too long to approve here: tgctl approvals show A-7"},
		{"the arguments are very long", "ops", func(q *pb.Approval) {
			q.Arguments = []byte(`{"name":"x","arguments":{"content":"` + strings.Repeat("rm -rf / ", 1000) + `"}}`)
		}, "9,014 bytes in all; tgctl approvals show A-7)"},
		{"the daemon tells of the beginning of the arguments only", "ops", func(q *pb.Approval) {
			q.Arguments, q.ArgumentsBytes = []byte(`{"name":"x","arguments":{"content":"rm -rf /home (9000 bytes)"}}`), 9_014
		}, "9,014 bytes in all; tgctl approvals show A-7)"},
		{"the tool's name is long", "ops", func(q *pb.Approval) { q.Tool = strings.Repeat("write_", 30) }, "Too long to approve here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNotifyTest(t)
			desk := startNotifier(t, n.bus, "body", "actions")
			n.daemon.Ask(test.workflow, "A-7")
			if test.change != nil {
				n.daemon.Change("A-7", test.change)
			}
			n.start()
			shown := desk.sees(t, "A-7")
			if got := shown.labels(); got != "Deny Show" || !strings.Contains(shown.body, test.says) {
				t.Errorf("buttons %q, want no Approve; the text lacks %q:\n%s", got, test.says, shown.body)
			}
			time.Sleep(minPressDelay)
			desk.invoke(t, shown.id, "approve:"+shown.nonce())
			n.logs("refused a press of a button that was not offered", "A-7")
			n.undecided()
		})
	}
}

// A press counts only if it comes from the owner of the notification daemon's name and
// names a button that notify has added.
func TestNotifyRefusesForgedPresses(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	n.start()
	shown := desk.sees(t, "A-7")
	forger := connectTo(t, n.bus)
	time.Sleep(minPressDelay)

	// By another program that knows everything: broadcast, and addressed to notify.
	key := shown.key("Approve")
	if err := forger.Emit(notificationsPath, notifications+".ActionInvoked", shown.id, key); err != nil {
		t.Fatal(err)
	}
	n.logs("refused a forged button press", `"key":"approve"`, forger.Names()[0], fmt.Sprint(`"pid":`, os.Getpid()))
	await(t, "a report of it", func() bool {
		n.daemon.Mu.Lock()
		defer n.daemon.Mu.Unlock()
		return slices.ContainsFunc(n.daemon.Reports, func(r *pb.ReportRequest) bool {
			return r.GetId() == "A-7" && r.GetSurface() == "desktop" && strings.Contains(r.GetReason(), fmt.Sprint("pid ", os.Getpid()))
		})
	})
	for _, signal := range []struct {
		member string
		body   []any
	}{
		{"ActionInvoked", []any{shown.id, key}},
		{"NotificationClosed", []any{shown.id, uint32(2)}},
		{"ActionInvoked", []any{"garbage"}},
		{"ActionInvoked", []any{shown.id, int32(1)}},
	} {
		forger.Send(&dbus.Message{Type: dbus.TypeSignal, Body: signal.body, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(notificationsPath), dbus.FieldInterface: dbus.MakeVariant(notifications),
			dbus.FieldMember: dbus.MakeVariant(signal.member), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(signal.body...)),
			dbus.FieldDestination: dbus.MakeVariant(string(shown.sender)),
		}}, nil)
	}
	// By the notification daemon, but with a key that notify has not sent.
	desk.invoke(t, shown.id, "approve")
	desk.invoke(t, shown.id, "approve:wrong")
	n.logs("refused a press of a button that was not offered", fmt.Sprint(`"notification":`, shown.id))
	desk.invoke(t, shown.id, "default")
	desk.invoke(t, shown.id+1, key) // another program's notification
	n.undecided()

	// The real press still counts after that.
	desk.press(t, shown, "Approve")
	n.decides("ANSWER_APPROVE A-7 the subject of A-7 desktop")
	if got := n.daemon.Decided(); len(got) != 1 {
		t.Errorf("answers %q, want one", got)
	}
	if strings.Contains(n.log.String(), shown.nonce()) {
		t.Error("the log holds what makes a press genuine")
	}
}

// A flood of forged presses is reported only now and then, and does not block answers.
func TestNotifyFlood(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	n.start()
	shown := desk.sees(t, "A-7")
	forger := connectTo(t, n.bus)
	for i := range 3000 {
		if err := forger.Emit(notificationsPath, notifications+".ActionInvoked", shown.id, fmt.Sprint("approve:", i)); err != nil {
			t.Fatal(err)
		}
	}
	n.logs("refused a forged button press")
	desk.press(t, shown, "Deny")
	n.decides("ANSWER_DENY A-7 the subject of A-7 desktop")
	if got := strings.Count(n.log.String(), "forged"); got > 10 {
		t.Errorf("%d lines in the log", got)
	}
}

// A click that was meant for something else approves nothing.
func TestNotifyPressedTooSoon(t *testing.T) {
	n := newNotifyTest(t)
	var now atomic.Int64 // the clock stands still, so that a slow test can't fail
	began := time.Now().UnixNano()
	now.Store(began)
	n.app.Now = func() time.Time { return time.Unix(0, now.Load()) }
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.start()
	n.daemon.Ask("ops", "A-7")
	desk.showsIn(t, &now, "A-7")
	shown := desk.sees(t, "A-7: write_file")
	was := now.Swap(began) // it went on while the notification was on its way
	desk.invoke(t, shown.id, shown.key("Approve"))
	desk.sees(t, "A-7: not approved")
	now.Store(was)
	again := desk.sees(t, "A-7: write_file")
	n.undecided()
	now.Add(int64(minPressDelay))
	desk.invoke(t, again.id, again.key("Approve"))
	n.decides("ANSWER_APPROVE A-7 the subject of A-7 desktop")
}

// A question that was answered elsewhere disappears. A late press gets a message.
func TestNotifyEndedElsewhere(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-6", "A-7", "A-8")
	n.start()
	six, seven, eight := desk.sees(t, "A-6"), desk.sees(t, "A-7"), desk.sees(t, "A-8")
	n.ends("A-6", pb.ApprovalState_APPROVAL_STATE_REJECTED)
	desk.gone(t, "A-6")
	n.ends("A-7", pb.ApprovalState_APPROVAL_STATE_EXPIRED)
	desk.gone(t, "A-7")
	n.ends("A-8", pb.ApprovalState_APPROVAL_STATE_WITHDRAWN)
	desk.gone(t, "A-8")
	for _, test := range []struct {
		shown  *shownNote
		button string
		title  string
		says   string
	}{
		{six, "Approve", "Too late to approve A-6", "A-6 denied by you (terminal)"},
		{seven, "Deny", "Too late to deny A-7", "A-7 expired"},
		{eight, "Approve", "Too late to approve A-8", "A-8 withdrawn"},
	} {
		desk.invoke(t, test.shown.id, test.shown.key(test.button))
		told := desk.sees(t, test.title)
		if !strings.Contains(told.body, test.says) || len(told.actions) > 0 {
			t.Errorf("told %q with buttons %q, want %q", told.body, told.actions, test.says)
		}
	}
	n.undecided()
}

// The daemon may refuse an answer, or know before notify that a question has ended. Both
// are shown.
func TestNotifyRefusedByTheDaemon(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		title string
		says  string
		again bool // it is shown again because it is still open
	}{
		{"decided", client.NewError(client.ReasonDecided, "it was rejected"), "Too late to approve A-7", "it was rejected", false},
		{"forbidden", client.NewError(client.ReasonForbidden, "a yes from the desktop is refused <i>here</i>"), "A-7: nothing was decided", "refused &lt;i&gt;here", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNotifyTest(t)
			n.daemon.DecideErr = test.err
			desk := startNotifier(t, n.bus, fullDesktop...)
			n.daemon.Ask("ops", "A-7")
			n.start()
			first := desk.sees(t, "A-7")
			desk.press(t, first, "Approve")
			if told := desk.sees(t, test.title); !strings.Contains(told.body, test.says) {
				t.Errorf("told %q, want %q", told.body, test.says)
			}
			if test.again {
				if second := desk.sees(t, "A-7: write_file"); second.id == first.id || second.nonce() == first.nonce() {
					t.Error("it is not shown anew")
				}
			}
		})
	}
}

// Closing a notification decides nothing, and it does not come back.
func TestNotifyClosed(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	n.start()
	desk.dismiss(t, desk.sees(t, "A-7").id)
	n.daemon.Ask("ops", "A-8")
	desk.sees(t, "A-8")
	if len(desk.titled("A-7")) > 0 {
		t.Error("what was closed came back")
	}
	n.undecided()
}

// A burst becomes one notification, which is updated with the open questions. When few
// enough are left, they are shown by themselves.
func TestNotifyBurst(t *testing.T) {
	n := newNotifyTest(t)
	terminal, ran := fakeTerminal(t)
	n.env["TERMINAL"] = terminal
	began := time.Now()
	var ahead atomic.Int64
	n.app.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.start()
	n.logs("questions are shown by")
	n.daemon.Ask("ops", "A-0")
	desk.showsIn(t, &ahead, "A-0:")
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprint("A-", i+1))
	}
	// The clock stands still until all are there: the daemon tells of the end of the other question after them.
	n.daemon.Ask("ops", ids...)
	n.daemon.Mu.Lock()
	n.daemon.Approvals = append(n.daemon.Approvals[1:], n.daemon.Approvals[0])
	n.daemon.Mu.Unlock()
	n.ends("A-0", pb.ApprovalState_APPROVAL_STATE_REJECTED)
	desk.gone(t, "A-0:")
	ahead.Add(int64(gathering))
	many := desk.sees(t, "30 questions wait")
	if got := many.labels(); got != "Show" || !strings.Contains(many.body, "30 from filesystem") || !strings.Contains(many.body, "tgctl approvals watch") {
		t.Errorf("buttons %q, text:\n%s", got, many.body)
	}
	desk.invoke(t, many.id, many.key("Show"))
	await(t, "a terminal", func() bool { return ran() == "/nowhere/tgctl approvals watch\n" })
	desk.mu.Lock()
	if desk.ever != 2 {
		t.Errorf("%d notifications for one burst and a question before it", desk.ever)
	}
	desk.mu.Unlock()
	for _, id := range ids[3:] {
		n.ends(id, pb.ApprovalState_APPROVAL_STATE_REJECTED)
	}
	desk.gone(t, "questions wait")
	for _, id := range ids[:3] {
		desk.sees(t, id+":")
	}
	n.undecided()
}

// If questions come and go all the time, they are shown by themselves for a while, and
// then together.
func TestNotifyChurn(t *testing.T) {
	n := newNotifyTest(t)
	began := time.Now()
	var ahead atomic.Int64
	n.app.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.start()
	for i := range maxPopups + 1 {
		ahead.Store(-int64(time.Since(began))) // however slow the machine is, the first does not become old
		id := fmt.Sprint("A-", i+1)
		n.daemon.Ask("ops", id)
		await(t, "a notification of "+id, func() bool {
			return len(desk.titled(id+":"))+len(desk.titled("1 question waits")) > 0
		})
		if i < maxPopups {
			n.ends(id, pb.ApprovalState_APPROVAL_STATE_REJECTED)
			desk.gone(t, id+":")
		}
	}
	desk.sees(t, "1 question waits")
	ahead.Add(2 * int64(popupsIn))
	n.daemon.Ask("ops", "A-100") // any event makes notify check again
	desk.sees(t, "A-100:")
	desk.sees(t, fmt.Sprint("A-", maxPopups+1, ":"))
	desk.gone(t, "question waits")
}

// Without buttons, the text says what to run.
func TestNotifyWithoutButtons(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, "body")
	n.daemon.Ask("ops", "A-7")
	n.start()
	shown := desk.sees(t, "A-7")
	if len(shown.actions) > 0 || !strings.HasSuffix(shown.body, "\nAnswer it in a terminal: tgctl approvals show A-7") {
		t.Errorf("buttons %q, text:\n%s", shown.actions, shown.body)
	}
}

// A question of a workflow on Slack is not shown here.
func TestNotifyAsksWhereItShould(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("team", "A-7")
	n.daemon.Ask("ops", "A-8")
	n.start()
	desk.sees(t, "A-8")
	if len(desk.titled("A-7")) > 0 {
		t.Error("a question for Slack is shown here")
	}
}

// Show opens a terminal with the question. The terminal ends with notify.
func TestNotifyShow(t *testing.T) {
	n := newNotifyTest(t)
	terminal, ran := fakeTerminal(t)
	n.env["TERMINAL"] = terminal
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	end := n.start()
	desk.press(t, desk.sees(t, "A-7"), "Show")
	await(t, "a terminal", func() bool { return ran() == "/nowhere/tgctl approvals watch A-7\n" })
	n.undecided()
	if len(desk.titled("A-7")) > 0 {
		t.Error("it is shown twice")
	}
	// Closed without an answer: the question is shown again.
	if err := os.WriteFile(filepath.Join(filepath.Dir(terminal), "close"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := desk.sees(t, "A-7")
	if err := os.Remove(filepath.Join(filepath.Dir(terminal), "close")); err != nil {
		t.Fatal(err)
	}
	desk.press(t, again, "Show")
	await(t, "another terminal", func() bool { return strings.Count(ran(), "watch A-7\n") == 2 })
	end() // waits for the terminal, too
	if got := ran(); !strings.HasSuffix(got, "\nended\n") {
		t.Errorf("the terminal did %q", got)
	}
}

func TestNotifyShowWithoutATerminal(t *testing.T) {
	n := newNotifyTest(t)
	n.env["TERMINAL"] = "/nowhere/xterm"
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	n.start()
	desk.press(t, desk.sees(t, "A-7"), "Show")
	if told := desk.sees(t, "No terminal could be opened"); !strings.Contains(told.body, "terminal: tgctl approvals watch A-7") {
		t.Errorf("told %q", told.body)
	}
}

// fakeTerminal returns the path of a program that records its arguments and when it is
// told to end, and a function that returns the record. The program exits when a file
// named close is beside it.
func fakeTerminal(t *testing.T) (path string, ran func() string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "fake-terminal")
	// The shell itself records it, at once: a child process would outlive it.
	script := "#!/bin/sh\nshift\ntrap 'echo ended >>" + dir + "/ran; exit 0' TERM\necho \"$@\" >>" + dir + "/ran\nwhile [ ! -e " + dir + "/close ]; do sleep 0.05; done\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "ran"))
		return string(text)
	}
}

// The daemon restarts: open questions are shown, ended ones are not, and presses in
// between decide nothing.
func TestNotifyDaemonRestart(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-6", "A-7")
	n.start()
	desk.sees(t, "A-6")
	seven := desk.sees(t, "A-7")
	n.stop()
	n.logs("lost the connection to the daemon; waiting for it")
	desk.press(t, seven, "Approve")
	desk.sees(t, "A-7: nothing was decided")
	n.ends("A-6", pb.ApprovalState_APPROVAL_STATE_REJECTED)
	n.serve()
	n.logs("connected to the daemon again")
	desk.gone(t, "A-6")
	desk.press(t, desk.sees(t, "A-7: write_file"), "Deny")
	n.decides("ANSWER_DENY A-7 the subject of A-7 desktop")
	if got := n.daemon.Decided(); len(got) != 1 {
		t.Errorf("answers %q, want one", got)
	}
	if got := strings.Count(n.log.String(), "lost the connection to the daemon"); got != 1 {
		t.Errorf("%d lines about it:\n%s", got, &n.log)
	}
}

// A question comes before there is a notification daemon, which is then replaced and gone
// for a while. The question is always shown by the current one.
func TestNotifyAnotherNotificationDaemon(t *testing.T) {
	n := newNotifyTest(t)
	n.daemon.Ask("ops", "A-7")
	n.start()
	n.logs("no notification daemon on the session bus; waiting for one")
	first := startNotifier(t, n.bus, fullDesktop...)
	old := first.sees(t, "A-7")
	second := startNotifier(t, n.bus, fullDesktop...) // it assigns the same id
	shown := second.sees(t, "A-7")
	if shown.id != old.id {
		t.Errorf("numbers %d and %d, want equal ones", shown.id, old.id)
	}
	time.Sleep(minPressDelay)
	first.invoke(t, old.id, old.key("Approve"))
	first.invoke(t, shown.id, shown.key("Approve"))
	n.logs("refused a forged button press", first.conn.Names()[0])
	n.undecided()
	second.conn.Close()
	third := startNotifier(t, n.bus, fullDesktop...)
	await(t, "a line for each of them", func() bool { return strings.Count(n.log.String(), "questions are shown by") == 3 })
	n.logs("questions are shown by", fmt.Sprint(`"pid":`, os.Getpid()))
	third.press(t, third.sees(t, "A-7"), "Approve")
	n.decides("ANSWER_APPROVE A-7 the subject of A-7 desktop")
	if got := strings.Count(n.log.String(), `"msg":"no notification daemon`); got > 2 {
		t.Errorf("%d lines about it:\n%s", got, &n.log)
	}
}

// A notification daemon that fails to show more is left alone for a while.
func TestNotifyNotShown(t *testing.T) {
	n := newNotifyTest(t)
	var ahead atomic.Int64
	n.app.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	desk := startNotifier(t, n.bus, fullDesktop...)
	desk.mu.Lock()
	desk.full = true
	desk.mu.Unlock()
	n.daemon.Ask("ops", "A-7")
	n.start()
	n.logs("cannot show questions; see them with tgctl approvals", "ExcessNotificationGeneration")
	n.daemon.Ask("ops", "A-8") // no reason to retry at once
	n.ends("A-8", pb.ApprovalState_APPROVAL_STATE_REJECTED)
	time.Sleep(2 * gathering)
	desk.mu.Lock()
	if desk.ever != 1 {
		t.Errorf("tried %d times", desk.ever)
	}
	desk.full = false
	desk.mu.Unlock()
	ahead.Store(int64(retry))
	n.daemon.Ask("ops", "A-9")
	desk.sees(t, "A-7")
	desk.sees(t, "A-9")
}

// The session bus restarts.
func TestNotifyBusRestart(t *testing.T) {
	n := newNotifyTest(t)
	startNotifier(t, n.bus, fullDesktop...).conn.Close()
	n.daemon.Ask("ops", "A-7")
	n.start()
	n.logs("no notification daemon")
	n.bus.Stop()
	n.logs("lost the connection to the session bus; waiting for it")
	bus := sessionbus.Start(t, n.bus.Dir)
	desk := startNotifier(t, bus, fullDesktop...)
	desk.press(t, desk.sees(t, "A-7"), "Deny")
	n.decides("ANSWER_DENY A-7 the subject of A-7 desktop")
}

// A bus that closes every connection is retried with a backoff.
func TestNotifyIsNotBusy(t *testing.T) {
	dir := consoletest.ShortDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close() })
	n := newNotifyTest(t)
	n.env["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=" + l.Addr().String()
	n.daemon.Ask("ops", "A-7")
	began := time.Now()
	n.start()
	await(t, "it tries again", func() bool { return tries.Load() >= 4 })
	if took := time.Since(began); took < 7*firstLook {
		t.Errorf("it tried 4 times in %v", took)
	}
	n.logs("no session bus; waiting for it")
	if got := strings.Count(n.log.String(), "\n"); got > 2 {
		t.Errorf("%d lines in the log:\n%s", got, &n.log)
	}
}

// Notify waits for the daemon if it may not start it.
func TestNotifyWaitsForTheDaemon(t *testing.T) {
	n := newNotifyTest(t)
	n.stop()
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	n.start()
	n.logs("the daemon is not running; waiting for it")
	n.serve()
	desk.sees(t, "A-7")
}

// When it is stopped, notify withdraws its notifications.
func TestNotifyLeavesNothing(t *testing.T) {
	n := newNotifyTest(t)
	desk := startNotifier(t, n.bus, fullDesktop...)
	n.daemon.Ask("ops", "A-7")
	end := n.start()
	desk.sees(t, "A-7")
	end()
	if left := desk.titled(""); len(left) > 0 {
		t.Errorf("left is %q", left[0].title)
	}
	await(t, "nobody else is on the bus", func() bool {
		names := []string{}
		if err := desk.conn.BusObject().Call(busName+".ListNames", 0).Store(&names); err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(names, func(name string) bool { return name[0] != ':' })) == 1
	})
}

func TestNotifyWhereItCannot(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		code int
		says string
	}{
		{"no bus", nil, ui.ExitFailed, "no session bus"},
		{"a bus of its own is not started", map[string]string{"DBUS_SESSION_BUS_ADDRESS": "autolaunch:", "XDG_RUNTIME_DIR": "/nonexistent"}, ui.ExitFailed, "no session bus"},
		{"below an agent", map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent", "THOUGHTGATE_ACTIVE": "1"}, ui.ExitFailed, "below a wrapped agent"},
		{"no daemon, and none to be started", map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent", "HOME": "/nonexistent"}, ui.ExitNotRunning, "not running"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := consoletest.New("/nonexistent/control.sock", Command)
			for name, value := range test.env {
				c.Env[name] = value
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if code := c.Execute(ctx, "notify"); code != test.code || !strings.Contains(c.Err.String(), test.says) {
				t.Errorf("exit %d, said %q; want %d and %q", code, c.Err.String(), test.code, test.says)
			}
		})
	}
}
