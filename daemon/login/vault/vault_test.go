package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const canary = "CANARY-5f1c"

// ring is a keyring in memory.
type ring struct {
	kept  map[string]string
	err   error // of all calls
	loses bool  // takes and keeps nothing, as after a dismissed question
	asked int
}

func (r *ring) Get(_ context.Context, name string) (string, error) {
	r.asked++
	if text, ok := r.kept[name]; ok || r.err != nil {
		return text, r.err
	}
	return "", ErrNotFound
}

func (r *ring) Set(_ context.Context, name, value string) error {
	if !r.loses && r.err == nil {
		r.kept[name] = value
	}
	return r.err
}

func example(resource string) *Login {
	return &Login{
		Resource: resource, Issuer: "https://login.example", Audience: resource, TokenURL: "https://login.example/token",
		ClientID: "c", Scopes: []string{"read"}, ClientSecret: NewSecret(canary + "-client"), Access: NewSecret(canary + strings.Repeat("x", 9000)),
		Refresh: NewSecret(canary + "-refresh"), Issued: time.Unix(1, 0).UTC(), Expiry: time.Unix(2, 0).UTC(),
	}
}

func same(a, b *Login) bool {
	return a != nil && b != nil && a.Access.Equal(b.Access) && a.Refresh.Equal(b.Refresh) && a.ClientSecret.Equal(b.ClientSecret) &&
		a.Resource == b.Resource && a.Issuer == b.Issuer && a.TokenURL == b.TokenURL && a.Expiry.Equal(b.Expiry) && len(a.Scopes) == len(b.Scopes)
}

// A login is there after a restart, for its server alone, and nothing of it is readable in the folder.
func TestPutGet(t *testing.T) {
	for name, r := range map[string]*ring{
		"with a keyring":              {kept: map[string]string{}},
		"without":                     {err: errors.New("no session bus")},
		"with one that keeps nothing": {loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			v := New(dir, r)
			if _, err := v.Get(ctx, "https://a.example/mcp"); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			a, b := example("https://a.example/mcp"), example("https://b.example/mcp")
			for _, l := range []*Login{a, b, a} {
				if err := v.Put(ctx, l); err != nil {
					t.Fatal(err)
				}
			}
			v = New(dir, r)
			for _, want := range []*Login{a, b} {
				if got, err := v.Get(ctx, want.Resource); err != nil || !same(got, want) {
					t.Errorf("%s: %v, %v", want.Resource, got, err)
				}
			}
			if _, err := v.Get(ctx, "https://a.example"); !errors.Is(err, ErrNotFound) {
				t.Errorf("another path of the server: %v", err)
			}
			servers, inKeyring, why, err := v.Servers()
			if err != nil || len(servers) != 2 || inKeyring != (r.kept != nil) || inKeyring == (why != "") {
				t.Errorf("Servers() = %q, %v, %q, %v", servers, inKeyring, why, err)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, path := range files {
				text, _ := os.ReadFile(path)
				if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 || bytes.Contains(text, []byte(canary)) {
					t.Errorf("%s has mode %v, or a secret", path, info.Mode())
				}
				if inKeyring && filepath.Base(path) == keyName {
					t.Errorf("the key lies in the folder, too")
				}
			}
			if err := v.Delete(ctx, a.Resource); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Get(ctx, a.Resource); !errors.Is(err, ErrNotFound) {
				t.Errorf("after Delete: %v", err)
			}
			if _, err := v.Get(ctx, b.Resource); err != nil {
				t.Error(err)
			}
		})
	}
}

// A sealed login is that of its server and issuer, whatever is written beside it.
func TestAltered(t *testing.T) {
	for name, alter := range map[string]func(*file){
		"of another server":     func(f *file) { f.Logins[0].Sealed = f.Logins[1].Sealed },
		"as another server's":   func(f *file) { f.Logins[1].Resource, f.Logins[0].Resource = f.Logins[0].Resource, "https://x.example" },
		"as of another issuer":  func(f *file) { f.Logins[0].Issuer = "https://evil.example" },
		"a bit of it":           func(f *file) { f.Logins[0].Sealed[30] ^= 1 },
		"cut off":               func(f *file) { f.Logins[0].Sealed = f.Logins[0].Sealed[:10] },
		"as of another version": func(f *file) { f.Version++ },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			v := New(dir, &ring{err: errors.New("none")})
			for _, l := range []*Login{example("https://a.example"), example("https://b.example")} {
				if err := v.Put(ctx, l); err != nil {
					t.Fatal(err)
				}
			}
			f, err := v.read()
			if err != nil {
				t.Fatal(err)
			}
			alter(f)
			if err := v.write(f); err != nil {
				t.Fatal(err)
			}
			if got, err := v.Get(ctx, "https://a.example"); err == nil || errors.Is(err, ErrNotFound) {
				t.Errorf("Get returned %v, %v", got, err)
			}
		})
	}
}

// A keyring that is locked or away costs no login, and none is stored past it.
func TestKeyringAway(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	r := &ring{kept: map[string]string{}}
	if err := New(dir, r).Put(ctx, example("https://a.example")); err != nil {
		t.Fatal(err)
	}
	r.err = errors.New("it is locked")
	v := New(dir, r)
	if _, err := v.Get(ctx, "https://a.example"); err == nil || errors.Is(err, ErrKeyLost) || !strings.Contains(err.Error(), "unlock") {
		t.Errorf("Get returned %v", err)
	}
	if err := v.Put(ctx, example("https://b.example")); err == nil {
		t.Error("stored a login past the keyring")
	}
	r.err = nil
	for range 3 {
		if _, err := v.Get(ctx, "https://a.example"); err != nil {
			t.Error(err)
		}
	}
	if r.asked > 4 {
		t.Errorf("the keyring was asked %d times", r.asked)
	}

	// The key is gone: said so, and a new login begins again without removing the old file.
	clear(r.kept)
	v = New(dir, r)
	if _, err := v.Get(ctx, "https://a.example"); !errors.Is(err, ErrKeyLost) {
		t.Errorf("without the key: %v", err)
	}
	if err := v.Put(ctx, example("https://b.example")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir, r).Get(ctx, "https://b.example"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, fileName+".lost")); err != nil {
		t.Error(err)
	}
}

func TestKeyOfOthers(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	r := &ring{err: errors.New("none")}
	if err := New(dir, r).Put(ctx, example("https://a.example")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, keyName), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir, r).Get(ctx, "https://a.example"); err == nil || errors.Is(err, ErrKeyLost) {
		t.Errorf("took a key that others can read: %v", err)
	}
}

// Nothing prints a secret.
func TestSecret(t *testing.T) {
	s := NewSecret(canary)
	type inner struct{ secret Secret }
	values := map[string]any{
		"itself": s, "a pointer": &s, "a login": *example("https://a.example"), "a pointer to one": example("https://a.example"),
		"a member": inner{s}, "a list": []inner{{s}}, "a key": map[Secret]Secret{s: s}, "an error": fmt.Errorf("with %v", s),
	}
	for name, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%t", "%p"} {
			if got := fmt.Sprintf(verb, value); strings.Contains(got, canary) || strings.Contains(strings.ToLower(got), fmt.Sprintf("%x", canary)) {
				t.Errorf("%s with %s prints %q", name, verb, got)
			}
		}
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", value)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", value)
		text, _ := json.Marshal(value)
		if strings.Contains(out.String()+string(text), canary) {
			t.Errorf("%s: %s %s", name, out.String(), text)
		}
	}
	if s.Reveal() != canary || s.IsZero() || !(Secret{}).IsZero() || !NewSecret("").IsZero() {
		t.Error("the secret itself is wrong")
	}
}
