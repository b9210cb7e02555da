package vault

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/internal/test/sessionbus"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// service is an org.freedesktop.secrets with one collection.
type service struct {
	conn   *dbus.Conn
	mu     sync.Mutex
	items  map[string]wireSecret // by the attribute username
	asked  int                   // how often an item was searched
	hangs  chan struct{}         // if not nil, searches wait for it
	asks   bool                  // CreateItem asks the person, who dismisses it
	broken bool                  // the prompt's answer has the wrong types
}

type wireSecret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

const (
	root   = dbus.ObjectPath("/org/freedesktop/secrets")
	login  = root + "/collection/login"
	prompt = root + "/prompt/p1"
)

func (s *service) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	return dbus.MakeVariant(""), root + "/session/s1", nil
}

func (s *service) Unlock(paths []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	return paths, "/", nil
}

func (s *service) Close() *dbus.Error { return nil }

func (s *service) SearchItems(attributes map[string]string) ([]dbus.ObjectPath, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.hangs != nil {
		<-s.hangs
	}
	if _, ok := s.items[attributes["username"]]; !ok || attributes["service"] != keyringService {
		return nil, nil
	}
	return []dbus.ObjectPath{s.path(attributes["username"])}, nil
}

func (s *service) path(name string) dbus.ObjectPath {
	return login + "/" + dbus.ObjectPath(strings.ReplaceAll(name, " ", "_"))
}

func (s *service) CreateItem(properties map[string]dbus.Variant, secret wireSecret, _ bool) (dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks {
		return "/", prompt, nil
	}
	attributes := properties["org.freedesktop.Secret.Item.Attributes"].Value().(map[string]string)
	name := attributes["username"]
	s.items[name] = secret
	if err := s.conn.Export(item{secret}, s.path(name), "org.freedesktop.Secret.Item"); err != nil {
		return "/", "/", dbus.MakeFailedError(err)
	}
	return s.path(name), "/", nil
}

func (s *service) Prompt(string) *dbus.Error {
	body := []any{true, dbus.MakeVariant("")}
	if s.broken {
		body = []any{"dismissed"}
	}
	if err := s.conn.Emit(prompt, "org.freedesktop.Secret.Prompt.Completed", body...); err != nil {
		return dbus.MakeFailedError(err)
	}
	return nil
}

type item struct{ secret wireSecret }

func (i item) GetSecret(dbus.ObjectPath) (wireSecret, *dbus.Error) { return i.secret, nil }

type collections struct{}

func (collections) Get(string, string) (dbus.Variant, *dbus.Error) {
	return dbus.MakeVariant([]dbus.ObjectPath{login}), nil
}

// onBus starts a session bus of the test's own, with a Secret Service as configured.
func onBus(t *testing.T, s *service) {
	t.Helper()
	bus := sessionbus.Start(t, tempdir.New(t, "", "tg"))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", bus.Address)
	conn, err := dbus.Connect(bus.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.conn, s.items = conn, map[string]wireSecret{}
	for path, parts := range map[dbus.ObjectPath][]string{
		root: {"org.freedesktop.Secret.Service"}, login: {"org.freedesktop.Secret.Collection"}, prompt: {"org.freedesktop.Secret.Prompt"},
		root + "/session/s1": {"org.freedesktop.Secret.Session"},
	} {
		for _, part := range parts {
			err = errors.Join(err, conn.Export(s, path, part))
		}
	}
	err = errors.Join(err, conn.Export(collections{}, root, "org.freedesktop.DBus.Properties"))
	reply, err2 := conn.RequestName("org.freedesktop.secrets", dbus.NameFlagDoNotQueue)
	if err = errors.Join(err, err2); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(err, reply)
	}
	t.Cleanup(func() { // the library keeps its connection for the next test's bus otherwise
		if shared, err := dbus.SessionBus(); err == nil {
			shared.Close()
		}
	})
}

func TestSecretService(t *testing.T) {
	s := new(service)
	onBus(t, s)
	ctx, dir := t.Context(), t.TempDir()
	want := example("https://a.example/mcp")
	if err := New(dir, new(System)).Put(ctx, want); err != nil {
		t.Fatal(err)
	}
	v := New(dir, new(System))
	if got, err := v.Get(ctx, want.Resource); err != nil || !same(got, want) {
		t.Fatal(got, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, inKeyring, why, _ := v.Servers(); !inKeyring || len(s.items) != 1 {
		t.Errorf("the key is not in the Secret Service: %q", why)
	}
	for name, secret := range s.items {
		if text := string(secret.Value); len(text) != 64 || strings.Contains(name+text, canary) {
			t.Errorf("the Secret Service keeps %q", name)
		}
	}
}

// A person who dismisses the keyring's question, or a keyring whose answers make no sense, gets a
// login all the same, and is told where its key lies.
func TestDismissed(t *testing.T) {
	for _, broken := range []bool{false, true} {
		onBus(t, &service{asks: true, broken: broken})
		ctx, dir := t.Context(), t.TempDir()
		v := New(dir, new(System))
		if err := v.Put(ctx, example("https://a.example")); err != nil {
			t.Fatal(err)
		}
		if _, inKeyring, why, _ := v.Servers(); inKeyring || why == "" {
			t.Errorf("broken %v: in keyring %v, %q", broken, inKeyring, why)
		}
		if _, err := New(dir, new(System)).Get(ctx, "https://a.example"); err != nil {
			t.Error(err)
		}
	}
}

// A keyring that waits for a person holds nobody longer than they want, and is asked once.
func TestLockedKeyring(t *testing.T) {
	s := &service{hangs: make(chan struct{})}
	onBus(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	system := new(System)
	for range 5 {
		if _, err := system.Get(ctx, "logins x"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "unlocked") {
			t.Errorf("Get returned %v", err)
		}
	}
	close(s.hangs)
	if _, err := system.Get(t.Context(), "logins x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked > 2 { // the last one may have come after the answer
		t.Errorf("the keyring was asked %d times", s.asked)
	}
}

// Where there is no session bus, none is started.
func TestNoBus(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("PATH", dir)
	if reachable() == nil {
		t.Skip("this user has a session bus")
	}
	if err := os.WriteFile(filepath.Join(dir, "dbus-launch"), []byte("#!/bin/sh\n: >"+dir+"/started\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := New(dir, new(System)).Put(t.Context(), example("https://a.example")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("a session bus was started")
	}
}
