// Package vault keeps what logins to servers have brought. Tokens lie in one file of the state
// folder, each login sealed with its server and issuer as associated data. The key lies in the
// system's keyring, or in a file beside it where there is no keyring. So a token may be longer than a
// keyring takes, a rotated one is stored by one rename, and a keyring is asked once.
package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/secret"
)

const (
	fileName = "logins.json"
	keyName  = "logins.key"

	version      = 1
	maxFileBytes = 8 << 20
	maxLogins    = 1000
)

var (
	// ErrNotFound reports that nobody is logged in to a server.
	ErrNotFound = errors.New("no login")
	// ErrKeyLost reports that logins are stored and their key is gone. Only a new login helps.
	ErrKeyLost = errors.New("the key of the stored logins is gone")
)

// Login is what a login to a server has brought, and what its issuer wants to renew it.
type Login struct {
	Resource string // the server: origin and path
	Issuer   string

	Audience   string // the server as its issuer names it
	TokenURL   string
	RevokeURL  string // empty if the issuer revokes nothing
	ClientID   string
	AuthMethod string // how the client authenticates with its secret
	Scopes     []string

	ClientSecret, Access, Refresh Secret
	Issued, Expiry                time.Time // Expiry is zero if the token has none
}

// sealed is a Login in the clear, which exists only on its way into the file and out of it.
type sealed struct {
	Login
	ClientSecret, Access, Refresh string
}

type file struct {
	Version int
	Keyring string // the name of the key in the keyring; empty if it is in a file
	Why     string // why it is in a file
	Logins  []entry
}

type entry struct {
	Resource, Issuer string
	Sealed           []byte // nonce, then ciphertext
}

func (e *entry) data() []byte {
	return fmt.Appendf(nil, "thoughtgate login %d\x00%s\x00%s", version, e.Resource, e.Issuer)
}

// Keyring keeps small secrets where the system protects them.
type Keyring interface {
	// Get returns ErrNotFound if there is none of that name.
	Get(ctx context.Context, name string) (string, error)
	Set(ctx context.Context, name, value string) error
}

// Vault keeps logins in a folder that only its owner can read. One process may use a folder.
type Vault struct {
	dir     string
	keyring Keyring

	mu    sync.Mutex
	key   []byte // once it was needed
	keyOf string // its name in the keyring
}

// New returns the vault of a state folder. It touches nothing.
func New(dir string, keyring Keyring) *Vault { return &Vault{dir: dir, keyring: keyring} }

// Get returns the login to a server; ErrNotFound if there is none.
func (v *Vault) Get(ctx context.Context, resource string) (*Login, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, err := v.read()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.Logins, func(e entry) bool { return e.Resource == resource })
	if i < 0 {
		return nil, ErrNotFound
	}
	if err := v.loadKey(ctx, f); err != nil {
		return nil, err
	}
	return v.open(&f.Logins[i])
}

// Put stores a login and replaces the one to the same server. When it returns nil the login survives
// a power failure.
func (v *Vault) Put(ctx context.Context, l *Login) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, err := v.read()
	if err != nil {
		return err
	}
	// The key changes while it seals nothing, so that a crash on the way loses nothing.
	err = v.loadKey(ctx, f)
	if errors.Is(err, ErrKeyLost) || f.Keyring == "" && len(f.Logins) == 0 {
		err = v.newKey(ctx, f)
	}
	if err != nil {
		return err
	}
	f.Logins = slices.DeleteFunc(f.Logins, func(e entry) bool { return e.Resource == l.Resource })
	if len(f.Logins) >= maxLogins {
		return fmt.Errorf("store a login: there are %d already; remove some with tgctl logout", len(f.Logins))
	}
	e := entry{Resource: l.Resource, Issuer: l.Issuer}
	text, err := json.Marshal(sealed{*l, l.ClientSecret.Reveal(), l.Access.Reveal(), l.Refresh.Reveal()})
	if err != nil {
		return err
	}
	aead, err := chacha20poly1305.NewX(v.key)
	if err != nil {
		return err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	e.Sealed = aead.Seal(nonce, nonce, text, e.data())
	f.Logins = append(f.Logins, e)
	return v.write(f)
}

// Delete removes the login to a server; it is no error if there is none. It needs no key.
func (v *Vault) Delete(_ context.Context, resource string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, err := v.read()
	before := len(f.Logins)
	if err != nil {
		return err
	}
	f.Logins = slices.DeleteFunc(f.Logins, func(e entry) bool { return e.Resource == resource })
	if len(f.Logins) == before {
		return nil
	}
	return v.write(f)
}

// Servers returns the servers with a login, and where its key lies, for a person. why says why it is
// not in the keyring.
func (v *Vault) Servers() (servers []string, inKeyring bool, why string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, err := v.read()
	for _, e := range f.Logins {
		servers = append(servers, e.Resource)
	}
	return servers, f.Keyring != "", f.Why, err
}

func (v *Vault) open(e *entry) (*Login, error) {
	aead, err := chacha20poly1305.NewX(v.key)
	if err != nil {
		return nil, err
	}
	altered := fmt.Errorf("the stored login to %s is corrupt or was altered; remove it with tgctl logout and log in again", e.Resource)
	if len(e.Sealed) < aead.NonceSize() {
		return nil, altered
	}
	text, err := aead.Open(nil, e.Sealed[:aead.NonceSize()], e.Sealed[aead.NonceSize():], e.data())
	var s sealed
	if err != nil || json.Unmarshal(text, &s) != nil {
		return nil, altered
	}
	l := s.Login
	l.ClientSecret, l.Access, l.Refresh = NewSecret(s.ClientSecret), NewSecret(s.Access), NewSecret(s.Refresh)
	return &l, nil
}

// loadKey has v.key be the key of f. It is ErrKeyLost if that key is gone, and another error if the
// keyring can't say.
func (v *Vault) loadKey(ctx context.Context, f *file) error {
	if v.key != nil && v.keyOf == f.Keyring {
		return nil
	}
	var text string
	var err error
	if f.Keyring != "" {
		if text, err = v.keyring.Get(ctx, f.Keyring); err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("read the key of the stored logins from the keyring: %w; unlock the keyring and try again", err)
		}
	} else if text, err = secret.ReadFile(filepath.Join(v.dir, keyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the key of the stored logins: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w from where it was kept", ErrKeyLost)
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace([]byte(text))))
	if err != nil || len(key) != chacha20poly1305.KeySize {
		return fmt.Errorf("%w: what is kept in its place is none", ErrKeyLost)
	}
	v.key, v.keyOf = key, f.Keyring
	return nil
}

// newKey gives f a new key, in the keyring if it takes one and gives it back. Logins that only a lost
// key would open are set aside.
func (v *Vault) newKey(ctx context.Context, f *file) error {
	if len(f.Logins) > 0 {
		path := filepath.Join(v.dir, fileName)
		if err := os.Rename(path, path+".lost"); err != nil {
			return fmt.Errorf("set aside the logins whose key is gone: %w", err)
		}
		f.Logins = nil
	}
	key := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(key) // never fails
	text := hex.EncodeToString(key)
	f.Keyring, f.Why = "logins "+rand.Text(), ""
	err := v.keyring.Set(ctx, f.Keyring, text)
	if err == nil {
		// A person may have dismissed the question, which is no error to every keyring.
		var kept string
		if kept, err = v.keyring.Get(ctx, f.Keyring); err == nil && kept != text {
			err = errors.New("it gives back something else")
		}
	}
	if err != nil {
		f.Keyring, f.Why = "", fmt.Sprintf("the keyring can't be used: %.300s", err.Error())
		if err := secret.WriteFile(filepath.Join(v.dir, keyName), []byte(text+"\n")); err != nil {
			return fmt.Errorf("store the key of logins: %w", err)
		}
	}
	v.key, v.keyOf = key, f.Keyring
	return nil
}

// read returns an empty file if there is none.
func (v *Vault) read() (*file, error) {
	f := &file{Version: version}
	src, err := os.OpenFile(filepath.Join(v.dir, fileName), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	} else if err != nil {
		return f, fmt.Errorf("read the stored logins: %w", err)
	}
	defer src.Close()
	text, err := io.ReadAll(io.LimitReader(src, maxFileBytes+1))
	switch {
	case err != nil:
	case len(text) > maxFileBytes:
		err = errors.New("the file is too large")
	default:
		err = json.Unmarshal(text, f)
	}
	if err == nil && f.Version != version {
		err = fmt.Errorf("version %d is unsupported; it may be a newer ThoughtGate's", f.Version)
	}
	if err != nil {
		return &file{}, fmt.Errorf("read the stored logins in %s: %w; move the file away and log in again", src.Name(), err)
	}
	return f, nil
}

func (v *Vault) write(f *file) error {
	text, err := json.Marshal(f)
	if err == nil {
		err = secret.WriteFile(filepath.Join(v.dir, fileName), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("store the logins: %w", err)
	}
	return nil
}
