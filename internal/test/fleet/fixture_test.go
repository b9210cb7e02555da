package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	format "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/test/fleet/server"
)

// rootText is what stands for the fleet's root metadata, which no part of this program
// reads.
const rootText = `{"signed":{"_type":"root"}}`

// organization is an engine that runs in this process, with an issuer.
type organization struct {
	dir, address string
	admin        *nats.Conn
}

// newOrganization starts an engine and an issuer.
func newOrganization(t *testing.T) *organization {
	t.Helper()
	o := newEngine(t)
	o.issue(t)
	return o
}

// newEngine starts an engine.
func newEngine(t *testing.T) *organization {
	t.Helper()
	o := &organization{dir: filepath.Join(t.TempDir(), "acme")}
	port, err := server.FreePort()
	must(t, err)
	o.address = fmt.Sprintf("tls://127.0.0.1:%d", port)
	must(t, engine.Init(o.dir, engine.Options{Fleet: "acme", Engine: []string{o.address}}))
	s, err := server.Start(o.dir)
	must(t, err)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	o.prepare(t)
	return o
}

// prepare makes the streams.
func (o *organization) prepare(t *testing.T) {
	t.Helper()
	o.admin = o.as(t, engine.Admin)
	settings, err := engine.ReadSettings(o.dir)
	must(t, err)
	must(t, engine.Apply(t.Context(), o.admin, len(settings.Engine)))
	must(t, engine.Apply(t.Context(), o.admin, len(settings.Engine))) // again, which changes nothing
	_, err = streams.Put(t.Context(), o.admin, &nats.Msg{Subject: streams.TUF("root", "1"), Data: []byte(rootText)}, nil)
	must(t, err)
}

// issue starts an issuer.
func (o *organization) issue(t *testing.T) {
	t.Helper()
	issuer, ready := o.as(t, engine.Issuer), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := engine.Issue(ctx, o.dir, issuer, slog.New(slog.DiscardHandler), func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
	next(t, ready)
}

// as connects as one of those who run the engine.
func (o *organization) as(t *testing.T, role string) *nats.Conn {
	t.Helper()
	nc, err := engine.Connect(o.dir, role, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// token returns a new token with a grant.
func (o *organization) token(t *testing.T, g engine.Grant) *format.Token {
	t.Helper()
	if g.Expires.IsZero() {
		g.Expires = time.Now().Add(time.Hour)
	}
	secret, err := engine.NewToken(t.Context(), o.admin, g)
	must(t, err)
	ca, err := engine.CA(o.dir)
	must(t, err)
	settings, err := engine.ReadSettings(o.dir)
	must(t, err)
	root := sha256.Sum256([]byte(rootText))
	return &format.Token{
		V: format.TokenVersion, Fleet: "acme", Engine: settings.Engine, CA: hex.EncodeToString(ca), Root: hex.EncodeToString(root[:]),
		Group: g.Group, Mode: format.ModeFloor, Role: format.Role(g.Role), Until: g.Expires.Unix(), Secret: secret,
	}
}

// enrol enrols a device.
func (o *organization) enrol(t *testing.T, g engine.Grant) *courier.Identity {
	t.Helper()
	id, root, err := courier.Enrol(t.Context(), o.token(t, g))
	must(t, err)
	if string(root) != rootText {
		t.Errorf("root metadata: %q", root)
	}
	return id
}

// link connects as a device.
func (o *organization) link(t *testing.T, id *courier.Identity, options ...nats.Option) *courier.Link {
	t.Helper()
	l, err := id.Connect(options...)
	must(t, err)
	t.Cleanup(l.Close)
	return l
}

// until waits until something is so, for at most a minute.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
