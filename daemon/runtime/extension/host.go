package extension

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// memoryBounds limits the memory of one extension. Older records are deleted.
var memoryBounds = store.MemoryBounds{Records: 10_000, Bytes: 8 << 20}

// mostAnswered is the maximum size of the records that a query returns, in bytes.
const mostAnswered = 1 << 20

// needs maps the requests of an extension to the permissions that they require.
var needs = map[string]manifest.Permission{
	protocol.MemoryAppend: manifest.MemoryWrite, protocol.MemoryQuery: manifest.MemoryRead,
	protocol.ConfigSet: manifest.ConfigWrite, protocol.ConfigSubscribe: manifest.ConfigSubscribe,
}

// host handles a request of the extension. It checks the permission with each request.
func (e *extension) host(ctx context.Context, t *connection, method string, params []byte) ([]byte, error) {
	if params == nil {
		params = []byte(`{}`)
	}
	if p, ok := needs[method]; ok && !e.manifest.Has(p) {
		return nil, refused(fmt.Errorf("permission denied: %s required", p))
	}
	switch method {
	case protocol.MemoryAppend:
		return e.append(ctx, params)
	case protocol.MemoryQuery:
		return e.query(ctx, params)
	case protocol.ConfigGet:
		return e.get(ctx, params)
	case protocol.ConfigSet:
		key, value, err := protocol.ReadSetting(params)
		if err != nil {
			return nil, refused(err)
		}
		return done, e.set(ctx, key, value)
	case protocol.ConfigSubscribe:
		t.subscribed.Store(true)
		return done, nil
	}
	return nil, &rpc.Fault{Code: protocol.CodeNoMethod, Message: "method not found: " + protocol.Plain(method, 100)}
}

var done = []byte(`{"ok":true}`)

// refused returns the error of a request that is invalid or not permitted.
func refused(err error) error {
	return &rpc.Fault{Code: protocol.CodeParams, Message: err.Error()}
}

// failed returns the error of a request that the daemon could not carry out.
func failed(err error) error {
	if errors.Is(err, gate.ErrTooLarge) {
		return refused(err)
	}
	return &rpc.Fault{Code: protocol.CodeHost, Message: err.Error()}
}

func (e *extension) own(namespace string) error {
	if namespace != e.name {
		return refused(fmt.Errorf("namespace must equal the extension's name '%s' (got '%s')", e.name, protocol.Plain(namespace, 100)))
	}
	return nil
}

func (e *extension) append(ctx context.Context, params []byte) ([]byte, error) {
	a, err := protocol.ReadAppend(params)
	if err != nil {
		return nil, refused(err)
	}
	if err := e.own(a.Namespace); err != nil {
		return nil, err
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	now := time.Now().UTC().Truncate(time.Millisecond)
	m := &store.Memory{Written: now, Content: a.Content, Tags: a.Tags, Meta: a.Meta}
	if err := e.registry.o.Store.AppendMemory(ctx, e.name, m, memoryBounds); err != nil {
		return nil, failed(err)
	}
	return fmt.Appendf(nil, `{"ok":true,"timestamp_ms":%d}`, now.UnixMilli()), nil
}

// query returns the newest records that match, oldest first.
func (e *extension) query(ctx context.Context, params []byte) ([]byte, error) {
	q, err := protocol.ReadQuery(params)
	if err != nil {
		return nil, refused(err)
	}
	if err := e.own(q.Namespace); err != nil {
		return nil, err
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	var found []protocol.Remembered
	size := 0
	err = e.registry.o.Store.EachMemory(ctx, e.name, q.Since, q.Until, func(m *store.Memory) bool {
		tagged := q.TagPrefix == "" || slices.ContainsFunc(m.Tags, func(tag string) bool { return strings.HasPrefix(tag, q.TagPrefix) })
		if !tagged || !strings.Contains(m.Content, q.ContentContains) {
			return true
		}
		if size += len(m.Content) + len(m.Meta); size > mostAnswered && len(found) > 0 {
			return false
		}
		found = append(found, protocol.Remembered{Written: m.Written, Content: m.Content, Tags: m.Tags, Meta: m.Meta})
		return len(found) < q.Limit
	})
	if err != nil {
		return nil, failed(err)
	}
	slices.Reverse(found)
	return protocol.AppendRecords(nil, e.name, found), nil
}

// values returns the configuration of the extension: what was set, over the defaults of its
// manifest.
func (e *extension) values(ctx context.Context) (map[string]string, error) {
	values := map[string]string{}
	if e.manifest != nil {
		maps.Copy(values, e.manifest.Config)
	}
	set, err := e.registry.o.Store.ExtensionValues(ctx, e.name)
	maps.Copy(values, set)
	return values, err
}

func (e *extension) get(ctx context.Context, params []byte) ([]byte, error) {
	key, err := protocol.ReadKey(params)
	if err == nil {
		err = manifest.CheckKey(key)
	}
	if err != nil {
		return nil, refused(err)
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	values, err := e.values(ctx)
	if err != nil {
		return nil, failed(err)
	}
	if value, ok := values[key]; ok {
		return append(append([]byte(`{"value":`), wire.AppendQuote(nil, value)...), '}'), nil
	}
	return []byte(`{"value":null}`), nil
}

// set sets a value of the extension's configuration and notifies the program if it has
// subscribed.
func (e *extension) set(ctx context.Context, key, value string) error {
	err := manifest.CheckKey(key)
	if err == nil && len(value) > manifest.MaxValue {
		err = fmt.Errorf("config value must be at most %d bytes", manifest.MaxValue)
	}
	if err != nil {
		return refused(err)
	}
	e.turn.Lock()
	err = e.registry.o.Store.SetExtensionValue(ctx, e.name, key, value, manifest.MaxValues)
	e.turn.Unlock()
	if err != nil {
		return failed(err)
	}
	if t := e.current.Load(); t != nil && t.subscribed.Load() {
		ctx, cancel := context.WithTimeout(ctx, e.registry.o.Timeout(protocol.ConfigChanged))
		defer cancel()
		// A program that has ended, or does not read, gets the values when it starts again.
		_ = t.Notify(ctx, protocol.ConfigChanged, protocol.Setting(key, value))
	}
	return nil
}

// Setting is one value of an extension's configuration.
type Setting struct {
	Key, Value string
	Set        bool // false if it is the default of the manifest
}

// Config returns the configuration of an extension, sorted by key.
func (r *Registry) Config(ctx context.Context, name string) ([]Setting, error) {
	e, err := r.find(name)
	if err != nil {
		return nil, err
	}
	set, err := r.o.Store.ExtensionValues(ctx, name)
	if err != nil {
		return nil, err
	}
	values, err := e.values(ctx)
	if err != nil {
		return nil, err
	}
	var all []Setting
	for _, key := range slices.Sorted(maps.Keys(values)) {
		_, ours := set[key]
		all = append(all, Setting{key, values[key], ours})
	}
	return all, nil
}

// SetConfig sets a value of an extension's configuration. The program is notified at once if it
// has subscribed. Errors are gate.ErrNotFound, gate.ErrNotRunning, gate.ErrInvalid, and those
// of the disk.
func (r *Registry) SetConfig(ctx context.Context, name, key, value string) error {
	e, err := r.find(name)
	if err == nil && e.kept == nil {
		err = fmt.Errorf("extension %q: %w: %w", name, gate.ErrNotRunning, errNotAccepted)
	}
	if err != nil {
		return err
	}
	var fault *rpc.Fault
	if err := e.set(ctx, key, value); errors.As(err, &fault) && fault.Code == protocol.CodeParams {
		return fmt.Errorf("configure extension %q: %w: %s", name, gate.ErrInvalid, fault.Message)
	} else if err != nil {
		return err
	}
	return nil
}
