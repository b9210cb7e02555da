package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	busName       = "org.freedesktop.DBus"
	notifications = "org.freedesktop.Notifications"

	notificationsPath = dbus.ObjectPath("/org/freedesktop/Notifications")

	// busPatience is how long the bus or the notification daemon may take to
	// answer.
	busPatience = 5 * time.Second
)

// desktop is a connection to a session bus, and what is known of the
// notification daemon on it.
//
// Every program on the bus can send a signal that says a button was pressed. The
// bus puts the true sender's unique name on it, and that alone is believed: a
// signal counts when it comes from the connection that owns the name of the
// notification daemon. Calls go to that connection too and not to the name, so
// what is shown by one daemon is never taken for what is pressed at another.
type desktop struct {
	conn *dbus.Conn
	end  context.CancelFunc

	events  chan deskEvent // of the notification daemon
	forged  chan deskEvent // a press that came from elsewhere
	unheard atomic.Int64   // more of these, while one waited to be heard
	changed chan struct{}  // there is another notification daemon, or none

	mu    sync.Mutex
	owner string // unique name of the notification daemon; empty for none
	can   []string
	heir  *string // who the bus said last owns its name; nil: it said nothing yet
}

// deskEvent is what a signal says happened to a notification.
type deskEvent struct {
	sender string
	id     uint32
	key    string // of the action that was invoked; empty: it was closed
}

// openDesktop connects to the session bus at address. The connection stands
// until it is closed or lost, whatever becomes of ctx.
func openDesktop(ctx context.Context, address string) (*desktop, error) {
	d := &desktop{events: make(chan deskEvent, 64), forged: make(chan deskEvent, 1), changed: make(chan struct{}, 1)}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	d.end = end
	// Nothing bounds the talk with which a connection begins but its end.
	patience := time.AfterFunc(busPatience, end)
	defer patience.Stop()
	defer context.AfterFunc(ctx, end)()
	conn, err := dbus.Connect(address, dbus.WithContext(life), dbus.WithSignalHandler(d))
	if err != nil {
		end()
		return nil, fmt.Errorf("connect to the session bus: %w", err)
	}
	d.conn = conn
	// The rule for presses names no sender, so that a forged one is not only
	// refused but seen. One that is addressed to us would pass any rule.
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

// close ends the connection.
func (d *desktop) close() {
	d.end()
	d.conn.Close()
}

// lost is closed when the connection has ended.
func (d *desktop) lost() <-chan struct{} { return d.conn.Context().Done() }

// DeliverSignal takes a signal that came from the bus. It is called by the one
// goroutine that reads from the connection, and must not wait.
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
	case owner == "": // nothing is shown that this could be about
	case owner == s.Sender:
		select {
		case d.events <- e:
		default: // a press that is not heard decides nothing
		}
	case e.key != "":
		select {
		case d.forged <- e:
		default:
			d.unheard.Add(1)
		}
	}
}

// ownerChanged takes what the bus says of the owner of a name: the name, who owned
// it and who does.
func (d *desktop) ownerChanged(body []any) {
	if len(body) != 3 || body[0] != notifications {
		return
	}
	heir, _ := body[2].(string)
	d.mu.Lock()
	d.owner, d.heir = "", &heir
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// server is the unique name of the notification daemon, empty for none.
func (d *desktop) server() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner
}

// able reports whether the notification daemon says that it can do what.
func (d *desktop) able(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.can, what)
}

// errNoServer says that nobody shows notifications on this bus.
var errNoServer = errors.New("nobody shows notifications")

// find looks for the notification daemon, has the bus start one if there is none
// and one can be started, and says what it is.
func (d *desktop) find(ctx context.Context) (display.Safe, error) {
	ctx, cancel := context.WithTimeout(ctx, busPatience)
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
		return "", fmt.Errorf("look for the notification daemon: %w", err)
	}
	server := d.conn.Object(owner, notificationsPath)
	var name, vendor, version, spec string
	if err := server.CallWithContext(ctx, notifications+".GetServerInformation", 0).Store(&name, &vendor, &version, &spec); err != nil {
		return "", fmt.Errorf("ask the notification daemon what it is: %w", err)
	}
	var can []string
	if err := server.CallWithContext(ctx, notifications+".GetCapabilities", 0).Store(&can); err != nil {
		return "", fmt.Errorf("ask the notification daemon what it can do: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.heir != nil && *d.heir != owner {
		return "", errors.New("the notification daemon was replaced while it was asked")
	}
	d.owner, d.can = owner, can
	return display.Name(name) + spaced(display.Name(version)), nil
}

// isDBusError reports whether err is what the bus calls by name.
func isDBusError(err error, name string) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == busName+".Error."+name
}

// show shows n in the place of the notification replaced, 0 for none, and
// returns its number. What is shown must be known to be, to be taken away again:
// it does not end with ctx, only with patience.
func (d *desktop) show(ctx context.Context, n *note, replaced uint32) (uint32, error) {
	actions := []string{}
	if d.able("actions") {
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
		err = errors.New("it gave no number")
	}
	if err != nil {
		return 0, fmt.Errorf("show a notification: %w", err)
	}
	return id, nil
}

// withdraw takes a notification away.
func (d *desktop) withdraw(ctx context.Context, id uint32) error {
	return d.call(ctx, "CloseNotification", id).Err
}

// call calls a method of the notification daemon.
func (d *desktop) call(ctx context.Context, method string, args ...any) *dbus.Call {
	owner := d.server()
	if owner == "" {
		return &dbus.Call{Err: errNoServer}
	}
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	return d.conn.Object(owner, notificationsPath).CallWithContext(ctx, notifications+"."+method, 0, args...)
}

// pidOf is the process at the other end of a connection to the bus.
func (d *desktop) pidOf(ctx context.Context, name string) (pid uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	err = d.conn.BusObject().CallWithContext(ctx, busName+".GetConnectionUnixProcessID", 0, name).Store(&pid)
	return pid, err
}
