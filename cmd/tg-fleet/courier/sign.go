package courier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
)

// sign signs a statement with the key's private half: that in the user's SSH agent, or, if no agent
// has it, with OpenSSH's own program, which asks for passphrases and knows keys that want to be
// touched. Both may wait for the user; the end of ctx ends that.
func (k *ApproverKey) sign(ctx context.Context, statement []byte) ([]byte, error) {
	signature, err := k.signWithAgent(ctx, statement)
	if errors.Is(err, errNotInAgent) {
		return k.signWithProgram(ctx, statement)
	}
	if err != nil {
		return nil, fmt.Errorf("sign with the SSH agent's key %s: %w", k.SignWith, err)
	}
	return signature, nil
}

// errNotInAgent says that there is no agent, or that it doesn't have the key.
var errNotInAgent = errors.New("no SSH agent has the key")

func (k *ApproverKey) signWithAgent(ctx context.Context, statement []byte) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return nil, errNotInAgent
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	line, err := k.publicKey()
	if err != nil {
		return nil, err
	}
	key, err := fleet.ParseKey(line)
	if err != nil {
		return nil, err
	}
	user := agent.NewClient(conn)
	held, err := user.List()
	if err != nil {
		return nil, errNotInAgent
	}
	for _, h := range held {
		if other, err := fleet.ParseKey(h.String()); err != nil || other.String() != key.String() {
			continue
		}
		return key.Sign(fleet.Namespace, statement, func(b []byte) ([]byte, error) {
			signature, err := user.Sign(h, b)
			if err != nil {
				return nil, err
			}
			return ssh.Marshal(signature), nil
		})
	}
	return nil, errNotInAgent
}

func (k *ApproverKey) signWithProgram(ctx context.Context, statement []byte) ([]byte, error) {
	var signature, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-n", fleet.Namespace, "-f", k.SignWith)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(statement), &signature, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("sign with %s: %w: %.200q", k.SignWith, err, said.String())
	}
	return signature.Bytes(), nil
}
