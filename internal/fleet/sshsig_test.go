package fleet

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/sshkey"
)

// parsed returns the public key of k.
func parsed(t testing.TB, k *sshkey.Key) *Key {
	t.Helper()
	public, err := ParseKey(k.Line())
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func keygen(t *testing.T, stdin []byte, args ...string) error {
	t.Helper()
	path, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("no ssh-keygen")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(stdin), time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("ssh-keygen %s: %s", strings.Join(args, " "), out)
	return err
}

// A signature by ssh-keygen is valid here, for exactly what it signed.
func TestSignedBySSHKeygen(t *testing.T) {
	dir := t.TempDir()
	file, text := filepath.Join(dir, "key"), filepath.Join(dir, "statement")
	if err := keygen(t, nil, "-q", "-t", "ed25519", "-N", "", "-C", "ann at home", "-f", file); err != nil {
		t.Fatal(err)
	}
	message := []byte(`{"v":1}`)
	if err := os.WriteFile(text, message, 0o600); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(string(public))
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"sha512", "sha256"} {
		os.Remove(text + ".sig")
		if err := keygen(t, nil, "-q", "-Y", "sign", "-n", Namespace, "-O", "hashalg="+hash, "-f", file, text); err != nil {
			t.Fatal(err)
		}
		armored, err := os.ReadFile(text + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Verify(Namespace, message, armored); err != nil {
			t.Errorf("%s: %v", hash, err)
		}
		if err := key.Verify(Namespace, append(message, ' '), armored); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: another message: %v", hash, err)
		}
		if err := key.Verify("file", message, armored); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: another namespace: %v", hash, err)
		}
		if err := parsed(t, sshkey.New(t)).Verify(Namespace, message, armored); !errors.Is(err, ErrSigner) {
			t.Errorf("%s: another key: %v", hash, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-l", "-f", file).Output()
	if err != nil || !strings.Contains(string(out), key.Fingerprint()) {
		t.Errorf("fingerprint %s; ssh-keygen says %s (%v)", key.Fingerprint(), out, err)
	}
}

// What is valid here, ssh-keygen finds valid too: also for a security key, which this machine
// does not have.
func TestVerifiedBySSHKeygen(t *testing.T) {
	dir := t.TempDir()
	message := []byte(`{"v":1}`)
	plain, touch, untouched := sshkey.New(t), sshkey.NewTouch(t, true), sshkey.NewTouch(t, false)
	for name, c := range map[string]struct {
		signer *sshkey.Key
		valid  bool
	}{"plain": {plain, true}, "touched": {touch, true}, "not touched": {untouched, false}} {
		armored := c.signer.Sign(Namespace, message)
		allowed, sig := filepath.Join(dir, "allowed"), filepath.Join(dir, "sig")
		if err := errors.Join(os.WriteFile(allowed, []byte("ann "+c.signer.Line()+"\n"), 0o600), os.WriteFile(sig, armored, 0o600)); err != nil {
			t.Fatal(err)
		}
		theirs := keygen(t, message, "-Y", "verify", "-f", allowed, "-I", "ann", "-n", Namespace, "-s", sig)
		ours := parsed(t, c.signer).Verify(Namespace, message, armored)
		if (ours == nil) != c.valid {
			t.Errorf("%s: %v", name, ours)
		}
		if c.valid && theirs != nil { // the flag alone is left to the caller by ssh-keygen
			t.Errorf("%s: ssh-keygen says %v", name, theirs)
		}
	}
}

func TestSignatureRefused(t *testing.T) {
	signer, message := sshkey.New(t), []byte("message")
	key, good := parsed(t, signer), signer.Sign(Namespace, message)
	block, _ := base64.StdEncoding.DecodeString(strings.NewReplacer(armorBegin, "", armorEnd, "", "\n", "").Replace(string(good)))
	flip := func(i int) []byte {
		b := bytes.Clone(block)
		b[i] ^= 1
		return sshkey.Armor(b)
	}
	for name, armored := range map[string][]byte{
		"empty":           {},
		"no armor":        []byte(base64.StdEncoding.EncodeToString(block)),
		"cut":             good[:len(good)/2],
		"bytes after it":  sshkey.Armor(append(bytes.Clone(block), 0)),
		"cut inside":      sshkey.Armor(block[:len(block)-1]),
		"too long":        append(bytes.Repeat([]byte("\n"), maxSignature), good...),
		"another version": flip(len(sigMagic) + 3),
		"a huge length":   flip(len(sigMagic) + 4),
		"the last bit":    flip(len(block) - 1),
		"two":             append(bytes.Clone(good), good...),
	} {
		if err := key.Verify(Namespace, message, armored); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range block {
		if key.Verify(Namespace, message, flip(i)) == nil {
			t.Errorf("valid with another byte %d", i)
		}
	}
	touch := sshkey.NewTouch(t, true)
	armored := touch.Sign(Namespace, message)
	if err := parsed(t, touch).Verify(Namespace, message, armored); err != nil {
		t.Error(err)
	}
	if err := parsed(t, touch).Verify(Namespace, []byte("other"), armored); !errors.Is(err, ErrSignature) {
		t.Errorf("of a security key, over another message: %v", err)
	}
	if parsed(t, touch.For("ssh:other")).Verify(Namespace, message, armored) == nil {
		t.Error("valid for another application")
	}
}

func TestKeyRefused(t *testing.T) {
	good, touch := sshkey.New(t).Line(), sshkey.NewTouch(t, true).Line()
	for name, line := range map[string]string{
		"empty": "", "rsa": "ssh-rsa AAAA", "no base64": "ssh-ed25519 !!!!", "cut": good[:len(good)-8],
		"of another type": keyTouch + strings.TrimPrefix(good, keyPlain), "a key of a certificate": "ssh-ed25519-cert-v01@openssh.com AAAA",
		"too long": good + strings.Repeat(" ", maxSignature),
	} {
		if _, err := ParseKey(line); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, line := range []string{good, good + " a comment", touch} {
		if k, err := ParseKey(line); err != nil || !strings.HasPrefix(line, k.String()) || k.IsTouch() != strings.HasPrefix(line, "sk-") {
			t.Errorf("%s: %v, %v", line, k, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	plain, touch := sshkey.New(f), sshkey.NewTouch(f, true)
	key := parsed(f, plain)
	f.Add(plain.Sign(Namespace, []byte("m")), plain.Line())
	f.Add(touch.Sign(Namespace, []byte("m")), touch.Line())
	f.Fuzz(func(t *testing.T, armored []byte, line string) {
		if k, err := ParseKey(line); err == nil {
			_ = k.Verify(Namespace, []byte("m"), armored) // must not panic
			if again, err := ParseKey(k.String()); err != nil || again.Fingerprint() != k.Fingerprint() {
				t.Errorf("%q has another key than %q", line, k)
			}
		}
		_ = key.Verify(Namespace, []byte("m"), armored)
	})
}
