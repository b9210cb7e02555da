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

// What Argon2id is given for a new passphrase. What it was given for one that is
// enrolled stands beside its verifier.
const (
	passes   = 2
	memory   = 19 << 10 // KiB
	threads  = 1
	saltSize = 16
	keySize  = 32

	// mostPasses and mostMemory bound what a file that was tampered with can make
	// the daemon spend.
	mostPasses, mostMemory = 16, 256 << 10
)

const (
	shortest = 8 // characters of a passphrase: six digits are a code and never one
	longest  = 1024
)

// usable says why a passphrase can't be enrolled.
func usable(passphrase []byte) error {
	switch n := utf8.RuneCount(passphrase); {
	case n < shortest:
		return fmt.Errorf("a passphrase has at least %d characters, this one %d: %w", shortest, n, gate.ErrInvalid)
	case len(passphrase) > longest:
		return fmt.Errorf("a passphrase has at most %d bytes: %w", longest, gate.ErrInvalid)
	}
	return nil
}

// keys are what a passphrase makes: what it is known again by, and what the key of
// codes is encrypted under. Neither tells of the other.
type keys struct{ verifier, seal []byte }

// keysOf takes about 25 ms and 19 MiB, which are given back.
func keysOf(passphrase []byte, p *store.Presence) (keys, error) {
	if p.Passes == 0 || p.Passes > mostPasses || p.Memory == 0 || p.Memory > mostMemory || p.Threads == 0 || len(p.Salt) == 0 {
		return keys{}, errors.New("what is kept of the passphrase is damaged")
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

func (k keys) wipe() {
	clear(k.verifier)
	clear(k.seal)
}

// opens reports whether k is what the verifier was made of.
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

// closeWith puts a passphrase, and the key of codes if there is one, into p.
func closeWith(p *store.Presence, passphrase, key []byte) error {
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

// codesOf returns the key of codes, nil for none.
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
		return nil, errors.New("what is kept of the key of codes is damaged")
	}
	return key, nil
}

// Codes are those of RFC 6238 with what every program for them knows: SHA-1, six
// digits, a new one every 30 seconds.
const (
	period = 30 * time.Second
	digits = 6
	skew   = 1 // steps that a clock may be off, either way

	shortestKey, longestKey = 16, 64 // bytes
)

// stepAt is the number of the code that is due at a time.
func stepAt(t time.Time) int64 { return t.Unix() / int64(period/time.Second) }

// codeAt is the code of a step.
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

// stepOf returns the step after last that code belongs to, if it is due now; it
// looks at all of them, so that its time tells nothing.
func stepOf(key, code []byte, now time.Time, last int64) (int64, bool) {
	found := int64(-1)
	for step := stepAt(now) - skew; step <= stepAt(now)+skew; step++ {
		if subtle.ConstantTimeCompare(codeAt(key, step), code) == 1 && step > last {
			found = step
		}
	}
	return found, found >= 0
}
