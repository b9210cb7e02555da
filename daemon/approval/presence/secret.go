package presence

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Argon2id parameters for a new passphrase. Those of an enrolled one are stored with its
// verifier.
const (
	passes   = 2
	memory   = 19 << 10 // KiB
	threads  = 1
	saltSize = 16
	keySize  = 32

	// mostPasses and mostMemory limit the cost that an altered file can cause.
	mostPasses, mostMemory = 16, 256 << 10
)

const (
	shortest = 8 // characters of a passphrase, more than the six digits of a code
	longest  = 1024
)

// usable returns why a passphrase can't be enrolled.
func usable(passphrase []byte) error {
	switch n := utf8.RuneCount(passphrase); {
	case n < shortest:
		return fmt.Errorf("a passphrase must have at least %d characters, this one has %d: %w", shortest, n, gate.ErrInvalid)
	case len(passphrase) > longest:
		return fmt.Errorf("a passphrase can have at most %d bytes: %w", longest, gate.ErrInvalid)
	}
	return nil
}

// keys are derived from a passphrase: the verifier that identifies it, and the key that
// encrypts the key of codes. Neither reveals the other.
type keys struct{ verifier, seal []byte }

// keysOf takes about 25 ms and 19 MiB, which it releases.
func keysOf(passphrase []byte, p *store.Presence) (keys, error) {
	if p.Passes == 0 || p.Passes > mostPasses || p.Memory == 0 || p.Memory > mostMemory || p.Threads == 0 || len(p.Salt) == 0 {
		return keys{}, errors.New("the stored verifier of the passphrase is corrupt")
	}
	root := argon2.IDKey(passphrase, p.Salt, p.Passes, p.Memory, p.Threads, keySize)
	debug.FreeOSMemory()
	defer clear(root)
	verifier, err := hkdf.Expand(sha256.New, root, "thoughtgate presence verifier", keySize)
	if err != nil {
		return keys{}, err
	}
	seal, err := hkdf.Expand(sha256.New, root, "thoughtgate presence seal", keySize)
	return keys{verifier, seal}, err
}

// opens reports whether k matches the stored verifier.
func (k keys) opens(p *store.Presence) bool {
	return len(p.Verifier) == keySize && subtle.ConstantTimeCompare(k.verifier, p.Verifier) == 1
}

func (k keys) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.seal)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealSecret stores a passphrase in p, and the key of codes unless it is nil.
func sealSecret(p *store.Presence, passphrase, key []byte) error {
	p.Salt, p.Passes, p.Memory, p.Threads = make([]byte, saltSize), passes, memory, threads
	if _, err := rand.Read(p.Salt); err != nil {
		return err
	}
	k, err := keysOf(passphrase, p)
	if err != nil {
		return err
	}
	p.Verifier, p.Sealed = k.verifier, nil
	defer clear(k.seal)
	if key == nil {
		return nil
	}
	aead, err := k.aead()
	if err != nil {
		return err
	}
	p.Sealed = aead.Seal(nil, nil, key, nil)
	return nil
}

// codesOf returns the key of codes; nil if there is none.
func (k keys) codesOf(p *store.Presence) ([]byte, error) {
	if p.Sealed == nil {
		return nil, nil
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	key, err := aead.Open(nil, nil, p.Sealed, nil)
	if err != nil {
		return nil, errors.New("the stored key for codes is corrupt")
	}
	return key, nil
}

// Codes follow RFC 6238 with the parameters that all apps support: SHA-1, six digits, a
// new code every 30 seconds.
const (
	period = 30 * time.Second
	digits = 6
	skew   = 1 // steps that a clock may be off in either direction

	shortestKey, longestKey = 16, 64 // bytes
)

// stepAt returns the number of the code that is valid at t.
func stepAt(t time.Time) int64 { return t.Unix() / int64(period/time.Second) }

// codeAt returns the code of a step.
func codeAt(key []byte, step int64) []byte {
	h := hmac.New(sha1.New, key)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	h.Write(counter[:])
	sum := h.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	n := binary.BigEndian.Uint32(sum[at:]) & 0x7fffffff
	return fmt.Appendf(nil, "%0*d", digits, n%1_000_000)
}

// stepOf returns the step of code if the code is valid now and its step is after last. It
// compares all steps, so that its duration reveals nothing.
func stepOf(key, code []byte, now time.Time, last int64) (int64, bool) {
	found := int64(-1)
	for step := stepAt(now) - skew; step <= stepAt(now)+skew; step++ {
		if subtle.ConstantTimeCompare(codeAt(key, step), code) == 1 && step > last {
			found = step
		}
	}
	return found, found >= 0
}
