package courier

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/test/sshkey"
)

// newSigner makes an SSH key with OpenSSH's own program.
func newSigner(t *testing.T) (k *ApproverKey, private any) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen here: ", err)
	}
	k = &ApproverKey{SignWith: filepath.Join(t.TempDir(), "id")}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", k.SignWith).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(k.SignWith)
	if err != nil {
		t.Fatal(err)
	}
	if private, err = ssh.ParseRawPrivateKey(text); err != nil {
		t.Fatal(err)
	}
	return k, private
}

// A refusing agent has a key, and its user says no each time.
type refusing struct{ agent.Agent }

func (refusing) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) { return nil, errors.New("no") }

// The key in the agent signs, which is how a key without a private file does. Without one, the file
// does. What the user has refused to the agent is not signed with the file.
func TestSign(t *testing.T) {
	statement := []byte("a statement")
	key, private := newSigner(t)
	with := agent.NewKeyring()
	if err := with.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	line, err := key.publicKey()
	if err != nil {
		t.Fatal(err)
	}
	public, err := fleet.ParseKey(line)
	if err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(t.TempDir(), "absent")
	if err := os.WriteFile(absent+".pub", []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		key   *ApproverKey
		agent agent.Agent
		fails string
	}{
		"agent":                     {&ApproverKey{SignWith: absent}, with, ""},
		"agent, public half named":  {&ApproverKey{SignWith: absent + ".pub"}, with, ""},
		"no agent":                  {key, nil, ""},
		"agent without the key":     {key, agent.NewKeyring(), ""},
		"neither":                   {&ApproverKey{SignWith: absent + ".pub"}, agent.NewKeyring(), "sign with " + absent + ".pub"},
		"agent whose user says no":  {key, refusing{with}, "sign with the SSH agent's key " + key.SignWith},
		"no agent, and no key file": {&ApproverKey{SignWith: absent}, nil, "sign with " + absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SSH_AUTH_SOCK", "")
			if tt.agent != nil {
				sshkey.ServeAgent(t, func(c net.Conn) { _ = agent.ServeAgent(tt.agent, c) }) // its error is that the other end closed
			}
			signature, err := tt.key.sign(t.Context(), statement)
			if tt.fails != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.fails) {
					t.Fatalf("got %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := public.Verify(fleet.Namespace, statement, signature); err != nil {
				t.Errorf("%v\n%s", err, signature)
			}
			path := filepath.Join(t.TempDir(), "signature")
			if err := os.WriteFile(path, signature, 0o600); err != nil {
				t.Fatal(err)
			}
			check := exec.Command("ssh-keygen", "-Y", "check-novalidate", "-n", fleet.Namespace, "-s", path)
			check.Stdin = bytes.NewReader(statement)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("OpenSSH does not take the signature: %v\n%s", err, out)
			}
		})
	}
}

// An agent that says nothing, as one that waits for its user, is left when the question ends.
func TestSilentAgent(t *testing.T) {
	key, _ := newSigner(t)
	sshkey.ServeAgent(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := key.sign(ctx, []byte("a statement")); err == nil {
		t.Error("it signed")
	}
}
