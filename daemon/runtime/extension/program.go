package extension

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/folder"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

var (
	errChanged       = errors.New("it has changed since it was installed")
	errNotAccepted   = errors.New("it is not accepted; review and install it with `tgctl ext install`, or remove it")
	errBeingReplaced = errors.New("it is being removed or replaced")
	errPermitted     = errors.New("its manifest lacks the permission")
)

// grace is the grace period of an extension: only the daemon waits for its end.
var grace = child.Grace{Stdin: 2 * time.Second, Term: 2 * time.Second}

// mostHandled is the maximum number of concurrent requests of one extension.
const mostHandled = 32

// extension is one version of an extension. An upgrade creates another.
type extension struct {
	name     string
	dir      string
	kept     *store.Extension   // nil if nobody has agreed to it
	manifest *manifest.Manifest // as agreed to; nil if invalid
	wrong    error              // why it is not run; nil if process is set
	process  *supervise.Process[*connection]
	registry *Registry

	quit     chan struct{} // closed when it must end
	done     chan struct{} // closed when it has ended, if it was started
	idle     chan struct{} // closed when no request is under way, once leaving is set
	replaced chan struct{} // closed when another version is registered, or its name was removed
	failures chan error    // why it failed; to be recorded
	gone     bool          // it is being removed or replaced; guarded by registry.mu, like started
	started  bool

	current   atomic.Pointer[connection] // the latest connection
	strays    atomic.Uint64              // messages of it that were invalid or that nobody expected
	streaming chan struct{}              // holds a token while a provider streams
	turn      sync.Mutex                 // held during its access to the state database, so that extensions take turns

	mu       sync.Mutex         // guards the fields below
	declared *protocol.Declared // nil before its first handshake
	began    time.Time
	busy     int  // requests under way
	leaving  bool // no further request may begin
}

// connection is one connection to an extension.
type connection struct {
	*rpc.Conn
	subscribed atomic.Bool // wants notifications when its configuration changes
	unsure     atomic.Bool // a stream was given up, and more of it may arrive
}

// newExtension returns the extension in the folder with that name. kept is what a person agreed
// to, nil if nobody has. wrong says why the extension must not run.
func (r *Registry) newExtension(name string, kept *store.Extension, m *manifest.Manifest, wrong error) *extension {
	e := &extension{
		name: name, dir: filepath.Join(r.o.Dir, name), kept: kept, manifest: m, wrong: wrong, registry: r,
		quit: make(chan struct{}), done: make(chan struct{}), idle: make(chan struct{}), replaced: make(chan struct{}),
		failures: make(chan error, 1), streaming: make(chan struct{}, 1),
	}
	if wrong != nil {
		return e
	}
	e.process = supervise.New(supervise.Options[*connection]{
		Name: fmt.Sprintf("extension %q", name), Logger: r.o.Logger, Spec: e.spec,
		Open:      func(in io.WriteCloser, out io.ReadCloser) *connection { return e.open(tongues[m.Wire], in, out) },
		Run:       func(ctx context.Context, t *connection) error { return t.Run(ctx) },
		Handshake: e.greet, HandshakeTimeout: r.o.Timeout(protocol.Initialize),
		Farewell: func(ctx context.Context, t *connection) {
			// It ends in any case, so its answer does not matter.
			_, _ = t.Call(ctx, protocol.Shutdown, []byte(`{}`))
		},
		FarewellTimeout: r.o.Timeout(protocol.Shutdown), Grace: grace,
		Lost:    func(err error) bool { return errors.Is(err, rpc.ErrClosed) },
		Changed: e.changed,
		Policy:  supervise.Policy{Restarts: m.Restart.Attempts, First: m.Restart.First, Most: m.Restart.Most},
	})
	return e
}

func (e *extension) changed(s supervise.Status) {
	if s.State != supervise.Failed {
		return
	}
	select {
	case e.failures <- s.Err:
	default: // one is pending
	}
}

// digest returns the hex digest of the folder as agreed to; empty if nobody has agreed.
func (e *extension) digest() string {
	if e.kept == nil {
		return ""
	}
	sum := (&folder.Listing{Text: e.kept.Listing}).Digest()
	return hex.EncodeToString(sum[:])
}

// spec returns the command to start, if the folder is still what a person agreed to.
func (e *extension) spec() (child.Spec, error) {
	if err := e.unchanged(); err != nil {
		return child.Spec{}, supervise.Permanent(err)
	}
	e.mu.Lock()
	if e.began.IsZero() {
		e.began = time.Now()
	}
	e.mu.Unlock()
	program, err := e.registry.program(e.manifest, e.dir)
	if err != nil {
		return child.Spec{}, supervise.Permanent(err)
	}
	return child.Spec{Command: program, Args: e.manifest.Args, Env: e.registry.environment(e.manifest), Dir: e.dir}, nil
}

// program returns the path of the program that an extension in dir starts.
func (r *Registry) program(m *manifest.Manifest, dir string) (string, error) {
	return child.Resolve(m.Command, r.environment(m), dir)
}

// unchanged returns an error that names the first difference between the folder and its listing
// from the installation.
func (e *extension) unchanged() error {
	now, err := folder.List(e.dir)
	if err != nil {
		return fmt.Errorf("%w: %w; review it and install it again", errChanged, err)
	}
	if what := folder.Difference(e.kept.Listing, now.Text); what != "" {
		return fmt.Errorf("%w: %s; review it and install it again", errChanged, what)
	}
	return nil
}

// inherited are the variables that every extension gets from the daemon.
var inherited = []string{"PATH", "HOME", "LANG", "TERM", "XDG_RUNTIME_DIR"}

// environment returns the environment of an extension: the variables that it may have from the
// daemon, and those that its manifest sets.
func (r *Registry) environment(m *manifest.Manifest) []string {
	var env []string
	for _, name := range slices.Concat(inherited, m.Pass) {
		if value := r.o.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return child.ComposeEnv(env, m.Env, nil)
}

func (e *extension) open(speaks wireProtocol, in io.WriteCloser, out io.ReadCloser) *connection {
	t := &connection{}
	t.Conn = rpc.NewConn(out, in, rpc.Options{
		Framing: speaks.framing, Dialect: speaks.dialect, MaxMessage: speaks.max, MaxHandled: mostHandled, Strict: true,
		Handler: rpc.HandlerFunc(func(ctx context.Context, method string, params []byte) ([]byte, error) {
			return e.host(ctx, t, method, params)
		}),
		Dropped: func(string, []byte) { e.strays.Add(1) },
	})
	e.current.Store(t)
	return t
}

// greet performs the handshake.
func (e *extension) greet(ctx context.Context, t *connection) error {
	values, err := e.values(ctx)
	if err != nil {
		return err
	}
	hello := protocol.Greeting{Build: e.registry.o.Build, Name: e.name, Root: e.dir, Config: values}
	raw, err := t.Call(ctx, protocol.Initialize, hello.Params())
	if err != nil {
		return err
	}
	declared, err := protocol.ReadGreeting(raw, e.manifest)
	if err != nil {
		return supervise.Permanent(err)
	}
	e.mu.Lock()
	e.declared = declared
	e.mu.Unlock()
	e.registry.o.Changed()
	return nil
}

// offers returns what the extension offers; nothing while it is not available.
func (e *extension) offers() protocol.Declared {
	e.mu.Lock()
	declared := e.declared
	e.mu.Unlock()
	if declared == nil || e.wrong != nil {
		return protocol.Declared{}
	}
	if s := e.process.Status().State; s == supervise.Failed || s == supervise.Stopped {
		return protocol.Declared{}
	}
	return *declared
}

// checkPermission returns an error if the manifest does not have permission p.
func (e *extension) checkPermission(p manifest.Permission) error {
	if e.manifest == nil || !e.manifest.Has(p) {
		return fmt.Errorf("extension %q: %w: %w %s", e.name, gate.ErrForbidden, errPermitted, p)
	}
	return nil
}
