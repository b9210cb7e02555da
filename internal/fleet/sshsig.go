package fleet

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// The types of keys that can sign a decision.
const (
	keyPlain = "ssh-ed25519"
	keyTouch = "sk-ssh-ed25519@openssh.com"
)

// userPresent is the flag that a security key sets if it was touched.
const userPresent = 0x01

// sigMagic begins a signature and what is signed, see PROTOCOL.sshsig of OpenSSH.
const sigMagic = "SSHSIG"

// maxSignature is the maximum size of an armored signature in bytes. OpenSSH writes fewer than 700.
const maxSignature = 4 << 10

// Errors of a signature.
var (
	ErrSignature = errors.New("the signature is not valid")
	ErrSigner    = errors.New("the signature was made with another key")
)

// Key is an SSH public key that can sign a decision.
type Key struct {
	kind        string
	key         ed25519.PublicKey
	application string // of a security key
}

// ParseKey parses a public key in the form of authorized_keys. A comment is ignored.
func ParseKey(line string) (*Key, error) {
	if len(line) > maxSignature {
		return nil, errors.New("the key is too long")
	}
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != keyPlain && words[0] != keyTouch {
		return nil, fmt.Errorf("it is not an SSH public key of type %s or %s", keyPlain, keyTouch)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(words[1])
	if err != nil {
		return nil, errors.New("the key is malformed")
	}
	k, err := parseKeyBlob(raw)
	if err == nil && k.kind != words[0] {
		err = errors.New("the key is of another type than it says")
	}
	return k, err
}

func parseKeyBlob(raw []byte) (*Key, error) {
	r := reader{rest: raw}
	k := &Key{kind: string(r.text()), key: ed25519.PublicKey(r.text())}
	if k.kind == keyTouch {
		k.application = string(r.text())
	}
	if !r.done() || (k.kind != keyPlain && k.kind != keyTouch) || len(k.key) != ed25519.PublicKeySize {
		return nil, errors.New("the key is malformed")
	}
	return k, nil
}

// blob returns the key as SSH encodes it.
func (k *Key) blob() []byte {
	b := appendText(appendText(nil, k.kind), k.key)
	if k.kind == keyTouch {
		b = appendText(b, k.application)
	}
	return b
}

// String returns the key in the form of authorized_keys, without a comment.
func (k *Key) String() string {
	return k.kind + " " + base64.StdEncoding.EncodeToString(k.blob())
}

// Fingerprint returns the fingerprint of the key, as ssh-keygen shows it.
func (k *Key) Fingerprint() string {
	sum := sha256.Sum256(k.blob())
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// IsTouch reports whether the key is in a security key, which signs only if it is touched.
func (k *Key) IsTouch() bool { return k.kind == keyTouch }

// Verify returns an error unless armored is a signature of k over message, in the namespace.
// A security key must have been touched. Anybody with access to an account whose agent holds
// a plain key can sign with it.
func (k *Key) Verify(namespace string, message, armored []byte) error {
	s, err := parseSignature(armored)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(s.key, k.blob()):
		return ErrSigner
	case s.namespace != namespace:
		return fmt.Errorf("the signature is for the namespace %.80q, not %q: %w", s.namespace, namespace, ErrSignature)
	}
	var sum []byte
	switch s.hash {
	case "sha256":
		h := sha256.Sum256(message)
		sum = h[:]
	case "sha512":
		h := sha512.Sum512(message)
		sum = h[:]
	default:
		return fmt.Errorf("the signature uses the hash %.80q: %w", s.hash, ErrSignature)
	}
	signed := signedBytes(namespace, s.hash, sum)
	if k.kind == keyTouch {
		return k.verifyTouch(signed, s.signature)
	}
	r := reader{rest: s.signature}
	kind, signature := r.text(), r.text()
	if !r.done() || string(kind) != k.kind || len(signature) != ed25519.SignatureSize || !ed25519.Verify(k.key, signed, signature) {
		return ErrSignature
	}
	return nil
}

// Sign returns an armored signature of k over message, in the namespace, as Verify takes it. sign
// signs bytes with the private half, and returns the signature as SSH encodes it.
func (k *Key) Sign(namespace string, message []byte, sign func([]byte) ([]byte, error)) ([]byte, error) {
	const hash = "sha512"
	sum := sha512.Sum512(message)
	signature, err := sign(signedBytes(namespace, hash, sum[:]))
	if err != nil {
		return nil, err
	}
	raw := binary.BigEndian.AppendUint32([]byte(sigMagic), 1)
	raw = appendText(appendText(appendText(appendText(appendText(raw, k.blob()), namespace), ""), hash), signature)
	return pem.EncodeToMemory(&pem.Block{Type: sigType, Bytes: raw}), nil
}

// signedBytes returns what a key signs for a message with this sum.
func signedBytes(namespace, hash string, sum []byte) []byte {
	return appendText(appendText(appendText(appendText([]byte(sigMagic), namespace), ""), hash), sum)
}

// verifyTouch verifies what a security key has signed, see PROTOCOL.u2f of OpenSSH.
func (k *Key) verifyTouch(signed, blob []byte) error {
	r := reader{rest: blob}
	kind, signature, flags, counter := r.text(), r.text(), r.take(1), r.take(4)
	if !r.done() || string(kind) != k.kind || len(signature) != ed25519.SignatureSize {
		return ErrSignature
	}
	application, sum := sha256.Sum256([]byte(k.application)), sha256.Sum256(signed)
	of := append(append(append(application[:], flags...), counter...), sum[:]...)
	switch {
	case !ed25519.Verify(k.key, of, signature):
		return ErrSignature
	case flags[0]&userPresent == 0:
		return fmt.Errorf("the security key was not touched: %w", ErrSignature)
	}
	return nil
}

// signature is a parsed SSHSIG.
type signature struct {
	key       []byte
	namespace string
	hash      string
	signature []byte
}

const (
	sigType    = "SSH SIGNATURE"
	armorBegin = "-----BEGIN " + sigType + "-----"
	armorEnd   = "-----END " + sigType + "-----"
)

func parseSignature(armored []byte) (*signature, error) {
	malformed := fmt.Errorf("the signature is malformed: %w", ErrSignature)
	if len(armored) > maxSignature {
		return nil, malformed
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(armored)), armorBegin)
	if ok {
		text, ok = strings.CutSuffix(text, armorEnd)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text)) // which ignores line ends
	if !ok || err != nil || !bytes.HasPrefix(raw, []byte(sigMagic)) {
		return nil, malformed
	}
	r := reader{rest: raw[len(sigMagic):]}
	version := r.take(4)
	s := &signature{key: r.text(), namespace: string(r.text())}
	reserved := r.text()
	s.hash, s.signature = string(r.text()), r.text()
	if !r.done() || binary.BigEndian.Uint32(version) != 1 || len(reserved) > 0 {
		return nil, malformed
	}
	return s, nil
}

// reader reads SSH's encoding of texts. After an error all that it returns is empty, but has
// the length that was asked for.
type reader struct {
	rest   []byte
	failed bool
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return make([]byte, min(n, 4))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// text returns the next bytes whose length stands before them.
func (r *reader) text() []byte {
	n := binary.BigEndian.Uint32(r.take(4))
	if r.failed || uint64(n) > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	return r.take(int(n))
}

// done reports whether all was read, and no more.
func (r *reader) done() bool { return !r.failed && len(r.rest) == 0 }

func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
}
