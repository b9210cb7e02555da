package extension

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/extension/folder"
	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var (
	errChanged   = errors.New("it has changed since it was installed")
	errNobody    = errors.New("nobody has agreed to it; look at it and install it with `tgctl ext install`, or remove it")
	errGone      = errors.New("it is being removed or replaced")
	errPermitted = errors.New("its manifest does not have the permission")
)

// grace is how long an extension may take to leave: nobody waits for it but us.
var grace = child.Grace{Stdin: 2 * time.Second, Term: 2 * time.Second}

// mostHandled is how many requests of one extension are answered at once.
const mostHandled = 32

// extension is one version of one extension. An upgrade puts another in its place.
type extension struct {
	name     string
	dir      string
	kept     *store.Extension   // nil: nobody has agreed to it
	manifest *manifest.Manifest // as it was agreed to; nil when it can't be read
	wrong    error              // why it is not run; nil when process is set
	process  *supervise.Process[*talk]
	registry *Registry

	quit     chan struct{} // closed when it has to end
	done     chan struct{} // closed when it has ended, if it was started
	idle     chan struct{} // closed when nothing is asked of it any more, once it is taken away
	replaced chan struct{} // closed when another has its place, or none
	failures chan error    // why it failed, to be recorded
	gone     bool          // guarded by registry.mu, like started
	started  bool

	current   atomic.Pointer[talk] // the last conversation
	strays    atomic.Uint64        // messages of it that said nothing to anybody
	streaming chan struct{}        // has an item while a provider streams
	turn      sync.Mutex           // held while it is at the state database: others come in between

	mu       sync.Mutex         // guards what follows
	declared *protocol.Declared // nil before its first handshake
	began    time.Time
	busy     int  // how much is asked of it
	leaving  bool // nothing more may be asked of it
}

// talk is one conversation with an extension.
type talk struct {
	*wire.Conn
	subscribed atomic.Bool // it wants to hear of changes of its configuration
	unsure     atomic.Bool // a stream was given up, and may say more
}

// newExtension makes the extension that lies in dir. kept is what a person agreed
// to, nil for nothing.
func (r *Registry) newExtension(name string, kept *store.Extension, m *manifest.Manifest, wrong error) *extension {
	e := &extension{
		name: name, dir: filepath.Join(r.o.Dir, name), kept: kept, manifest: m, wrong: wrong, registry: r,
		quit: make(chan struct{}), done: make(chan struct{}), idle: make(chan struct{}), replaced: make(chan struct{}),
		failures: make(chan error, 1), streaming: make(chan struct{}, 1),
	}
	if wrong != nil {
		return e
	}
	e.process = supervise.New(supervise.Options[*talk]{
		Name: fmt.Sprintf("extension %q", name), Logger: r.o.Logger, Spec: e.spec,
		Open:      func(in io.WriteCloser, out io.ReadCloser) *talk { return e.open(tongues[m.Wire], in, out) },
		Run:       func(ctx context.Context, t *talk) error { return t.Run(ctx) },
		Handshake: e.greet, HandshakeTimeout: protocol.Timeout(protocol.Initialize),
		Farewell: func(ctx context.Context, t *talk) {
			// It leaves in any case; what it answers is of no matter.
			_, _ = t.Call(ctx, protocol.Shutdown, []byte(`{}`))
		},
		FarewellTimeout: protocol.Timeout(protocol.Shutdown), Grace: grace,
		Lost:    func(err error) bool { return errors.Is(err, wire.ErrClosed) },
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
	default: // one is on its way
	}
}

// digest is that of the folder as it was agreed to, in hex; empty for none.
func (e *extension) digest() string {
	if e.kept == nil {
		return ""
	}
	sum := (&folder.Listing{Text: e.kept.Listing}).Digest()
	return hex.EncodeToString(sum[:])
}

// spec says what to start, if the folder is still what a person agreed to.
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

// program is the path of what the command of an extension in dir starts.
func (r *Registry) program(m *manifest.Manifest, dir string) (string, error) {
	return child.Resolve(m.Command, r.environment(m), dir)
}

// unchanged says what is another in the folder than when it was installed.
func (e *extension) unchanged() error {
	now, err := folder.List(e.dir)
	if err != nil {
		return fmt.Errorf("%w: %w; look at it and install it again", errChanged, err)
	}
	if what := folder.Difference(e.kept.Listing, now.Text); what != "" {
		return fmt.Errorf("%w: %s; look at it and install it again", errChanged, what)
	}
	return nil
}

// inherited are the variables that every extension gets.
var inherited = []string{"PATH", "HOME", "LANG", "TERM", "XDG_RUNTIME_DIR"}

// environment is all that the program gets of ours, and what its manifest sets.
func (r *Registry) environment(m *manifest.Manifest) []string {
	var env []string
	for _, names := range [][]string{inherited, m.Pass} {
		for _, name := range names {
			if value := r.o.Getenv(name); value != "" {
				env = append(env, name+"="+value)
			}
		}
	}
	return child.ComposeEnv(env, m.Env, nil)
}

func (e *extension) open(speaks tongue, in io.WriteCloser, out io.ReadCloser) *talk {
	t := &talk{}
	t.Conn = wire.NewConn(out, in, wire.Options{
		Framing: speaks.framing, Dialect: speaks.dialect, MaxMessage: speaks.max, MaxHandled: mostHandled, Strict: true,
		Handler: wire.HandlerFunc(func(ctx context.Context, method string, params []byte) ([]byte, error) {
			return e.host(ctx, t, method, params)
		}),
		Dropped: func(string, []byte) { e.strays.Add(1) },
	})
	e.current.Store(t)
	return t
}

// greet makes the handshake.
func (e *extension) greet(ctx context.Context, t *talk) error {
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

// offers returns what the extension offers; nothing while it is not to be had.
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

// may refuses what the manifest has no permission for.
func (e *extension) may(p manifest.Permission) error {
	if e.manifest == nil || !e.manifest.Has(p) {
		return fmt.Errorf("extension %q: %w: %w %s", e.name, gate.ErrForbidden, errPermitted, p)
	}
	return nil
}
