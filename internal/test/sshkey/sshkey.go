// Package sshkey makes keys and signatures for tests as OpenSSH does: with a key in a file, as a
// security key would, or with an agent.
package sshkey

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"net"
	"path/filepath"
	"testing"
)

// Key is a key that signs.
type Key struct {
	private     ed25519.PrivateKey
	application string // of a security key
	flags       byte
}

// New returns a plain key.
func New(t testing.TB) *Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{private: private}
}

// NewTouch returns a security key. touched says whether somebody touches it when it signs.
func NewTouch(t testing.TB, touched bool) *Key {
	t.Helper()
	k := New(t)
	k.application = "ssh:"
	if touched {
		k.flags = 1
	}
	return k
}

// For returns the same security key for another application.
func (k *Key) For(application string) *Key {
	other := *k
	other.application = application
	return &other
}

func (k *Key) kind() string {
	if k.application != "" {
		return "sk-ssh-ed25519@openssh.com"
	}
	return "ssh-ed25519"
}

func (k *Key) blob() []byte {
	b := text(text(nil, k.kind()), k.private.Public().(ed25519.PublicKey))
	if k.application != "" {
		b = text(b, k.application)
	}
	return b
}

// Line returns the public key in the form of authorized_keys.
func (k *Key) Line() string { return k.kind() + " " + base64.StdEncoding.EncodeToString(k.blob()) }

// Sign returns the armored signature over message.
func (k *Key) Sign(namespace string, message []byte) []byte {
	sum := sha512.Sum512(message)
	signed := text(text(text(text([]byte("SSHSIG"), namespace), ""), "sha512"), sum[:])
	var signature []byte
	if k.application == "" {
		signature = text(text(nil, k.kind()), ed25519.Sign(k.private, signed))
	} else {
		application, of := sha256.Sum256([]byte(k.application)), sha256.Sum256(signed)
		tail := binary.BigEndian.AppendUint32([]byte{k.flags}, 7)
		signature = append(text(text(nil, k.kind()), ed25519.Sign(k.private, append(append(application[:], tail...), of[:]...))), tail...)
	}
	raw := binary.BigEndian.AppendUint32([]byte("SSHSIG"), 1)
	return Armor(text(text(text(text(text(raw, k.blob()), namespace), ""), "sha512"), signature))
}

// Armor returns the armored form of a signature.
func Armor(raw []byte) []byte {
	rest := base64.StdEncoding.EncodeToString(raw)
	var b bytes.Buffer
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for ; len(rest) > 70; rest = rest[70:] {
		b.WriteString(rest[:70] + "\n")
	}
	b.WriteString(rest + "\n-----END SSH SIGNATURE-----\n")
	return b.Bytes()
}

// ServeAgent makes what serve does with a connection the SSH agent of this process, until the test
// ends. It serves one connection after the other.
func ServeAgent(t *testing.T, serve func(net.Conn)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	t.Setenv("SSH_AUTH_SOCK", path)
}

// text appends a text as SSH encodes it.
func text[T ~string | ~[]byte](dst []byte, t T) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(t))), t...)
}
