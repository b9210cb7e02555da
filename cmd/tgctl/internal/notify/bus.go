package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	busName       = "org.freedesktop.DBus"
	notifications = "org.freedesktop.Notifications"

	notificationsPath = dbus.ObjectPath("/org/freedesktop/Notifications")

	// busTimeout is the timeout for a reply of the bus or of the notification daemon.
	busTimeout = 5 * time.Second
)

// desktop is a connection to a session bus, with the state of its notification daemon.
//
// Every program on the bus can send a signal that says a button was pressed. Only the
// sender's unique name, which the bus adds, can be trusted: a signal counts only if it
// comes from the connection that owns the name of the notification daemon. Calls go to
// that connection and not to the name, so that what one daemon shows is never confused
// with what is pressed at another.
type desktop struct {
	conn *dbus.Conn
	end  context.CancelFunc

	events        chan deskEvent // from the notification daemon
	forged        chan deskEvent // presses that came from elsewhere
	droppedForged atomic.Int64   // number of forged presses dropped because forged was full
	changed       chan struct{}  // the notification daemon was replaced or has ended

	mu       sync.Mutex
	owner    string // unique name of the notification daemon; empty if there is none
	can      []string
	newOwner *string // new owner according to the last signal of the bus; nil if there was none
}

// deskEvent is a signal about a notification.
type deskEvent struct {
	sender string
	id     uint32
	key    string // of the invoked action; empty if the notification was closed
}

// openDesktop connects to the session bus at address. ctx bounds only the connection
// setup; the connection lasts until it is closed or lost.
func openDesktop(ctx context.Context, address string) (*desktop, error) {
	d := &desktop{events: make(chan deskEvent, 64), forged: make(chan deskEvent, 1), changed: make(chan struct{}, 1)}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	d.end = end
	// The connection setup has no timeout of its own; only its context can end it.
	patience := time.AfterFunc(busTimeout, end)
	defer patience.Stop()
	defer context.AfterFunc(ctx, end)()
	conn, err := dbus.Connect(address, dbus.WithContext(life), dbus.WithSignalHandler(d))
	if err != nil {
		end()
		return nil, fmt.Errorf("connect to the session bus: %w", err)
	}
	d.conn = conn
	// The rule for presses names no sender, so that forged ones arrive and can be
	// reported. A signal addressed to this connection would pass any rule.
	for _, rule := range [][]dbus.MatchOption{
		{dbus.WithMatchSender(busName), dbus.WithMatchInterface(busName), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, notifications)},
		{dbus.WithMatchInterface(notifications), dbus.WithMatchMember("ActionInvoked")},
		{dbus.WithMatchSender(notifications), dbus.WithMatchInterface(notifications), dbus.WithMatchMember("NotificationClosed")},
	} {
		if err := conn.AddMatchSignalContext(ctx, rule...); err != nil {
			d.close()
			return nil, fmt.Errorf("listen on the session bus: %w", err)
		}
	}
	return d, nil
}

// close closes the connection.
func (d *desktop) close() {
	d.end()
	d.conn.Close()
}

// lost returns a channel that is closed when the connection has ended.
func (d *desktop) lost() <-chan struct{} { return d.conn.Context().Done() }

// DeliverSignal handles a signal from the bus. It is called from the one goroutine that
// reads from the connection, and must not block.
func (d *desktop) DeliverSignal(iface, member string, s *dbus.Signal) {
	if iface == busName && member == "NameOwnerChanged" && s.Sender == busName {
		d.ownerChanged(s.Body)
		return
	}
	if iface != notifications || s.Path != notificationsPath || len(s.Body) != 2 {
		return
	}
	e := deskEvent{sender: s.Sender}
	var known bool
	e.id, known = s.Body[0].(uint32)
	switch {
	case !known:
		return
	case member == "ActionInvoked":
		e.key, _ = s.Body[1].(string)
		if e.key == "" {
			return
		}
	case member != "NotificationClosed":
		return
	}
	owner := d.server()
	switch {
	case owner == "": // nothing is shown
	case owner == s.Sender:
		select {
		case d.events <- e:
		default: // dropped: without the press nothing is decided
		}
	case e.key != "":
		select {
		case d.forged <- e:
		default:
			d.droppedForged.Add(1)
		}
	}
}

// ownerChanged handles the bus's signal that the owner of a name has changed. body holds
// the name, the previous owner and the new one.
func (d *desktop) ownerChanged(body []any) {
	if len(body) != 3 || body[0] != notifications {
		return
	}
	heir, _ := body[2].(string)
	d.mu.Lock()
	d.owner, d.newOwner = "", &heir
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// server returns the unique name of the notification daemon, empty if there is none.
func (d *desktop) server() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner
}

// hasCapability reports whether the notification daemon has the capability what.
func (d *desktop) hasCapability(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.can, what)
}

// errNoServer reports that no notification daemon is on the bus.
var errNoServer = errors.New("no notification daemon is running")

// find looks for the notification daemon and returns its name and version. If there is
// none, it has the bus start one.
func (d *desktop) find(ctx context.Context) (display.Safe, error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	bus := d.conn.BusObject()
	var owner string
	err := bus.CallWithContext(ctx, busName+".GetNameOwner", 0, notifications).Store(&owner)
	if isDBusError(err, "NameHasNoOwner") {
		if err = bus.CallWithContext(ctx, busName+".StartServiceByName", 0, notifications, uint32(0)).Err; err == nil {
			err = bus.CallWithContext(ctx, busName+".GetNameOwner", 0, notifications).Store(&owner)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", errNoServer, err)
		}
	}
	if err != nil {
		return "", fmt.Errorf("find the notification daemon: %w", err)
	}
	server := d.conn.Object(owner, notificationsPath)
	var name, vendor, version, spec string
	if err := server.CallWithContext(ctx, notifications+".GetServerInformation", 0).Store(&name, &vendor, &version, &spec); err != nil {
		return "", fmt.Errorf("get the name of the notification daemon: %w", err)
	}
	var can []string
	if err := server.CallWithContext(ctx, notifications+".GetCapabilities", 0).Store(&can); err != nil {
		return "", fmt.Errorf("get the capabilities of the notification daemon: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newOwner != nil && *d.newOwner != owner {
		return "", errors.New("the notification daemon was replaced during the query")
	}
	d.owner, d.can = owner, can
	return display.Name(name) + ui.Spaced(display.Name(version)), nil
}

// isDBusError reports whether err is the bus's error with the given name.
func isDBusError(err error, name string) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name == busName+".Error."+name
}

// show shows n in place of the notification replaced, 0 for none, and returns its id. It
// ignores the cancellation of ctx, so that it always learns the id, which is needed to
// withdraw the notification. Only busTimeout bounds it.
func (d *desktop) show(ctx context.Context, n *note, replaced uint32) (uint32, error) {
	actions := []string{}
	if d.hasCapability("actions") {
		actions = append(actions, n.actions...)
	}
	expire, icon := int32(-1), "dialog-information"
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(n.urgency)}
	if n.stays {
		expire, icon = 0, "dialog-question"
		hints["resident"] = dbus.MakeVariant(true)
	}
	var id uint32
	err := d.call(context.WithoutCancel(ctx), "Notify", "ThoughtGate", replaced, icon, string(n.title), d.bodyText(n), actions, hints, expire).Store(&id)
	if err == nil && id == 0 {
		err = errors.New("the notification daemon returned no id")
	}
	if err != nil {
		return 0, fmt.Errorf("show a notification: %w", err)
	}
	return id, nil
}

// withdraw closes a notification.
func (d *desktop) withdraw(ctx context.Context, id uint32) error {
	return d.call(ctx, "CloseNotification", id).Err
}

// call calls a method of the notification daemon.
func (d *desktop) call(ctx context.Context, method string, args ...any) *dbus.Call {
	owner := d.server()
	if owner == "" {
		return &dbus.Call{Err: errNoServer}
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	return d.conn.Object(owner, notificationsPath).CallWithContext(ctx, notifications+"."+method, 0, args...)
}

// pidOf returns the pid of the process behind a connection to the bus.
func (d *desktop) pidOf(ctx context.Context, name string) (pid uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	err = d.conn.BusObject().CallWithContext(ctx, busName+".GetConnectionUnixProcessID", 0, name).Store(&pid)
	return pid, err
}
