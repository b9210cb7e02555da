package inbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	shortestPassphrase = 8  // characters; the same limit as the daemon's
	codeKeySize        = 20 // the digest size of SHA-1
)

func (a *app) presenceEnrolCmd() *cobra.Command {
	var totp bool
	cmd := &cobra.Command{
		Use:   "enrol [flags]",
		Short: "Enrol a secret",
		Long: `Enrol a passphrase of at least 8 characters. It is asked for twice, at the
terminal. With --totp a key for an authenticator app is shown as well, as a QR
code and as text; it takes effect once you have typed a code from the app. From
then on either the passphrase or a code is enough, except to change the secret.`,
		Example: `  $ tgctl presence enrol
  $ tgctl presence enrol --totp`,
		RunE: a.atTerminal(func(ctx context.Context, c *client.Client, t *ui.SecretTerminal, st *pb.PresenceState) error {
			if st.GetEnrolled() {
				return client.NewError(client.ReasonEnrolled, client.ErrEnrolled.Error())
			}
			secret, err := a.newSecret(ctx, t, "Passphrase", totp)
			defer wipeSecret(secret)
			if err != nil {
				return err
			}
			if _, err := c.EnrolPresence(ctx, secret); err != nil {
				return err
			}
			a.PrintMessage("Enrolled. Approval needs it where a workflow requires presence, and for calls of\nhigh risk; denying never does. The secret cannot be shown again: keep it.")
			return nil
		}),
	}
	cmd.Flags().BoolVar(&totp, "totp", false, "enrol an authenticator app as well")
	return cmd
}

func (a *app) presenceRotateCmd() *cobra.Command {
	var totp, noTOTP bool
	cmd := &cobra.Command{
		Use:   "rotate [flags]",
		Short: "Replace the secret",
		Long: `Replace the passphrase. The old one is asked for first; a code is not enough. An
authenticator app stays enrolled unless --totp creates a new key for it or
--no-totp removes it. Grants stay in force.`,
		Example: `  $ tgctl presence rotate
  $ tgctl presence rotate --totp`,
		RunE: a.atTerminal(func(ctx context.Context, c *client.Client, t *ui.SecretTerminal, st *pb.PresenceState) error {
			return a.rotatePresence(ctx, c, t, st, totp, noTOTP)
		}),
	}
	cmd.Flags().BoolVar(&totp, "totp", false, "enrol an authenticator app with a new key")
	cmd.Flags().BoolVar(&noTOTP, "no-totp", false, "stop accepting codes")
	cmd.MarkFlagsMutuallyExclusive("totp", "no-totp")
	return cmd
}

func (a *app) rotatePresence(ctx context.Context, c *client.Client, t *ui.SecretTerminal, st *pb.PresenceState, totp, noTOTP bool) error {
	if !st.GetEnrolled() {
		return client.NewError(client.ReasonNotEnrolled, client.ErrNotEnrolled.Error())
	}
	old, err := t.Ask(ctx, "Old passphrase (not shown):")
	if err != nil {
		return err
	}
	defer clear(old)
	secret, err := a.newSecret(ctx, t, "New passphrase", totp)
	defer wipeSecret(secret)
	if err != nil {
		return err
	}
	now, err := c.RotatePresence(ctx, &pb.RotatePresenceRequest{Passphrase: old, Secret: secret, KeepCodes: !totp && !noTOTP})
	if err != nil {
		return err
	}
	codes := ui.Choose(now.GetCodes() && !totp, " The authenticator app stays enrolled.", "")
	a.PrintMessage("Rotated. The old passphrase is no longer accepted.%s", codes)
	return nil
}

// newSecret asks for a passphrase twice and, with totp, enrols an authenticator app. The caller
// must wipe the result, also if err is not nil.
func (a *app) newSecret(ctx context.Context, t *ui.SecretTerminal, what string, totp bool) (*pb.PresenceSecret, error) {
	secret := &pb.PresenceSecret{}
	var err error
	for {
		if secret.Passphrase, err = t.Ask(ctx, what+" (not shown):"); err != nil {
			return secret, err
		}
		n := utf8.RuneCount(secret.Passphrase)
		if n >= shortestPassphrase {
			break
		}
		clear(secret.Passphrase)
		a.PrintMessage("A passphrase needs at least %d characters, this one has %d; four words that you can remember make a good one. Ctrl-C changes nothing.", shortestPassphrase, n)
	}
	again, err := t.Ask(ctx, "Repeat it (not shown):")
	defer clear(again)
	if err != nil {
		return secret, err
	}
	if !bytes.Equal(secret.Passphrase, again) {
		return secret, &ui.HintError{Err: errors.New("the passphrases do not match"), Hint: "Nothing was changed; try again."}
	}
	if totp {
		err = a.newCodes(ctx, t, secret)
	}
	return secret, err
}

// newCodes creates a TOTP key, shows it only on the terminal, and asks for a code that the app
// made from it.
func (a *app) newCodes(ctx context.Context, t *ui.SecretTerminal, secret *pb.PresenceSecret) error {
	secret.Key = make([]byte, codeKeySize)
	if _, err := rand.Read(secret.Key); err != nil {
		return err
	}
	lines, err := ui.QRCode(keyAddress(secret.Key, account()))
	if err != nil {
		return fmt.Errorf("draw the QR code: %w", err)
	}
	fmt.Fprintln(t.Tty, "\nScan this with an authenticator app, or type the key into it.\nAnyone who sees it can make codes: clear the screen afterwards.")
	fmt.Fprintln(t.Tty)
	for _, line := range lines {
		fmt.Fprintln(t.Tty, line)
	}
	fmt.Fprintf(t.Tty, "\nkey: %s\n\n", keyText(secret.Key))
	if secret.Code, err = t.Ask(ctx, "Code from the app (not shown):"); err != nil {
		return err
	}
	if !approval.IsCode(secret.Code) {
		return &ui.HintError{Err: errors.New("a code has six digits"), Hint: "Nothing was changed; remove the key from the app and try again."}
	}
	return nil
}

// keyText returns a TOTP key as people type it into an app.
func keyText(key []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)
}

// keyAddress returns the URI in the QR code: the key and its account.
func keyAddress(key []byte, account string) string {
	return fmt.Sprintf("otpauth://totp/ThoughtGate:%s?secret=%s&issuer=ThoughtGate", url.PathEscape(account), keyText(key))
}

// account returns the name of the key in the authenticator app.
func account() string {
	name := "me"
	if who, err := user.Current(); err == nil && who.Username != "" {
		name = who.Username
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		name += "@" + host
	}
	return name
}

func wipeSecret(s *pb.PresenceSecret) {
	clear(s.GetPassphrase())
	clear(s.GetKey())
	clear(s.GetCode())
}
