package notify

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/sessionbus"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// connectTo returns a connection to the bus for another program.
func connectTo(t *testing.T, b *sessionbus.Bus) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// shownNote is a notification as the notification daemon received it.
type shownNote struct {
	id, replaced      uint32
	title, body, icon string
	actions           []string // keys and labels alternate
	urgency           byte
	expire            int32
	sender            dbus.Sender
}

// labels returns the labels of the buttons.
func (s *shownNote) labels() string {
	var all []string
	for i := 1; i < len(s.actions); i += 2 {
		all = append(all, s.actions[i])
	}
	return strings.Join(all, " ")
}

// key returns the key of the button with the given label, empty if there is none.
func (s *shownNote) key(label string) string {
	if i := slices.Index(s.actions, label); i > 0 {
		return s.actions[i-1]
	}
	return ""
}

// nonce returns the nonce in the keys of the buttons.
func (s *shownNote) nonce() string {
	_, nonce, _ := strings.Cut(s.key("Show"), ":")
	return nonce
}

// fakeNotifier is a notification daemon.
type fakeNotifier struct {
	conn *dbus.Conn
	can  []string

	mu   sync.Mutex
	last uint32
	ever int  // number of Notify calls
	full bool // Notify fails
	on   map[uint32]*shownNote
}

// fullDesktop lists the capabilities of most notification daemons.
var fullDesktop = []string{"body", "body-markup", "actions", "persistence"}

// startNotifier starts a notification daemon, which replaces the one that owns the name
// on the bus.
func startNotifier(t *testing.T, b *sessionbus.Bus, can ...string) *fakeNotifier {
	t.Helper()
	f := &fakeNotifier{conn: connectTo(t, b), can: can, on: map[uint32]*shownNote{}, last: 100}
	if err := f.conn.Export(f, notificationsPath, notifications); err != nil {
		t.Fatal(err)
	}
	got, err := f.conn.RequestName(notifications, dbus.NameFlagAllowReplacement|dbus.NameFlagReplaceExisting|dbus.NameFlagDoNotQueue)
	if err != nil || got != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("own the name: %v, %v", got, err)
	}
	return f
}

func (f *fakeNotifier) GetServerInformation() (name, vendor, version, spec string, err *dbus.Error) {
	return "fake\x1b[2J", "none", "1.0", "1.2", nil
}

func (f *fakeNotifier) GetCapabilities() ([]string, *dbus.Error) { return f.can, nil }

func (f *fakeNotifier) Notify(_ string, replaced uint32, icon, title, body string, actions []string, hints map[string]dbus.Variant,
	expire int32, sender dbus.Sender) (uint32, *dbus.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := replaced
	if f.on[id] == nil {
		f.last++
		id = f.last
	}
	f.ever++
	if f.full {
		return 0, dbus.NewError("org.example.ExcessNotificationGeneration", nil)
	}
	urgency, _ := hints["urgency"].Value().(byte)
	f.on[id] = &shownNote{id, replaced, title, body, icon, actions, urgency, expire, sender}
	return id, nil
}

func (f *fakeNotifier) CloseNotification(id uint32) *dbus.Error {
	f.mu.Lock()
	shown := f.on[id] != nil
	delete(f.on, id)
	f.mu.Unlock()
	if !shown {
		return dbus.NewError("org.example.NotShown", nil)
	}
	_ = f.conn.Emit(notificationsPath, notifications+".NotificationClosed", id, uint32(3))
	return nil
}

// titled returns the notifications on the screen whose title contains text.
func (f *fakeNotifier) titled(text string) []*shownNote {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*shownNote
	for _, s := range f.on {
		if strings.Contains(s.title, text) {
			all = append(all, s)
		}
	}
	return all
}

// showsIn waits for a notification whose title contains text, in a test whose clock goes on only meanwhile.
func (f *fakeNotifier) showsIn(t *testing.T, clock *atomic.Int64, text string) {
	t.Helper()
	await(t, "a notification that says "+text, func() bool {
		if len(f.titled(text)) > 0 {
			return true
		}
		clock.Add(int64(time.Millisecond))
		return false
	})
}

// sees waits for the notification whose title contains text.
func (f *fakeNotifier) sees(t *testing.T, text string) *shownNote {
	t.Helper()
	var found []*shownNote
	await(t, "a notification that says "+text, func() bool {
		found = f.titled(text)
		return len(found) == 1
	})
	return found[0]
}

// gone waits until no notification's title contains text.
func (f *fakeNotifier) gone(t *testing.T, text string) {
	t.Helper()
	await(t, "no notification that says "+text, func() bool { return len(f.titled(text)) == 0 })
}

// press presses the button with the given label at the speed of a person. Like many
// notification daemons it then closes the notification.
func (f *fakeNotifier) press(t *testing.T, s *shownNote, label string) {
	t.Helper()
	time.Sleep(minPressDelay) // at the speed of a person
	f.invoke(t, s.id, s.key(label))
	f.dismiss(t, s.id)
}

func (f *fakeNotifier) invoke(t *testing.T, id uint32, key string) {
	t.Helper()
	if err := f.conn.Emit(notificationsPath, notifications+".ActionInvoked", id, key); err != nil {
		t.Fatal(err)
	}
}

// dismiss closes a notification as a person would.
func (f *fakeNotifier) dismiss(t *testing.T, id uint32) {
	t.Helper()
	f.mu.Lock()
	delete(f.on, id)
	f.mu.Unlock()
	if err := f.conn.Emit(notificationsPath, notifications+".NotificationClosed", id, uint32(2)); err != nil {
		t.Fatal(err)
	}
}

// notifyTest runs tgctl notify with a fake daemon and a private bus.
type notifyTest struct {
	*testing.T
	daemon *consoletest.Daemon
	stop   func() // stops the daemon
	bus    *sessionbus.Bus
	app    *app
	env    map[string]string
	log    rig.Buffer
}

// newNotifyTest sets up a bus without a notification daemon, and a daemon without
// questions. The test runs in parallel, since it mostly waits.
func newNotifyTest(t *testing.T) *notifyTest {
	t.Helper()
	t.Parallel()
	dir := consoletest.ShortDir(t)
	n := &notifyTest{T: t, bus: sessionbus.Start(t, dir), daemon: &consoletest.Daemon{Socket: filepath.Join(dir, "control.sock"), Status: &pb.StatusResponse{}}}
	n.daemon.Set = consoletest.Workflows("desktop")
	n.serve()
	c := consoletest.New(n.daemon.Socket, Command).Pipe()
	c.Env["DBUS_SESSION_BUS_ADDRESS"] = n.bus.Address
	n.app, n.env = &app{c.App}, c.Env
	n.app.Err, n.app.Now, n.app.NoStart = &n.log, time.Now, true
	return n
}

// serve starts the daemon.
func (n *notifyTest) serve() {
	n.stop = n.daemon.Serve(n.T)
	n.Cleanup(n.stop)
}

// start runs notify until the test ends or end is called.
func (n *notifyTest) start() (end func()) {
	n.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.app.notify(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				n.Errorf("notify ended: %v", err)
			}
		case <-time.After(time.Minute):
			n.Error("notify does not end")
		}
	})
	n.Cleanup(end)
	return end
}

// ends ends a question as if somebody else had decided it.
func (n *notifyTest) ends(id string, state pb.ApprovalState) {
	n.daemon.Change(id, func(q *pb.Approval) {
		q.State, q.Arguments, q.Decider, q.Surface = state, nil, "ana (uid 1000)", "terminal"
	})
}

// decides waits for the answer want.
func (n *notifyTest) decides(want string) {
	n.Helper()
	await(n.T, "the answer "+want, func() bool { return slices.Contains(n.daemon.Decided(), want) })
}

// undecided fails if the daemon got an answer.
func (n *notifyTest) undecided() {
	n.Helper()
	if got := n.daemon.Decided(); len(got) > 0 {
		n.Errorf("answers %q, want none", got)
	}
}

// logs waits for a line in the log that contains all texts.
func (n *notifyTest) logs(texts ...string) {
	n.Helper()
	await(n.T, fmt.Sprintf("a line in the log with %q", texts), func() bool {
		return slices.ContainsFunc(strings.Split(n.log.String(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
	})
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
