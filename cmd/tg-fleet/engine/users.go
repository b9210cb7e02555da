package engine

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// A Grant is what a token gives to the device that is enrolled with it.
type Grant struct {
	Role     string    `json:"role"`
	Group    string    `json:"group"`
	Name     string    `json:"name,omitempty"`     // for people
	Approver string    `json:"approver,omitempty"` // of an approver; see streams.Approver
	Asks     []string  `json:"asks,omitempty"`     // the groups whose questions an approver may answer
	Expires  time.Time `json:"expires,omitzero"`   // of the token
	Device   string    `json:"device,omitempty"`   // that has used the token
	Revoked  bool      `json:"revoked,omitempty"`  // the device gets no more JWTs
}

// signUser returns a JWT for the key of a user. Its permissions are those of the signer's
// scope.
func signUser(dir string, signer nkeys.KeyPair, account, user string, g Grant, expires time.Time) (string, error) {
	of, err := readKey(dir, "account-"+account)
	if err != nil {
		return "", err
	}
	return sign(signer, public(of), user, g, expires)
}

func sign(signer nkeys.KeyPair, account, user string, g Grant, expires time.Time) (string, error) {
	claims := jwt.NewUserClaims(user)
	claims.SetScoped(true)
	claims.Name, claims.IssuerAccount = g.Name, account
	if claims.Name == "" {
		claims.Name = user
	}
	if g.Group != "" {
		claims.Tags.Add(GroupTag + ":" + g.Group)
	}
	if g.Approver != "" {
		claims.Tags.Add(approverTag + ":" + g.Approver)
	}
	for _, group := range g.Asks {
		claims.Tags.Add(AsksTag + ":" + group)
	}
	if !expires.IsZero() {
		claims.Expires = expires.Unix()
	}
	return claims.Encode(signer)
}

// writeCredentials makes a user of CORE with a role.
func writeCredentials(dir, role string) error {
	signer, err := readKey(dir, "role-"+role)
	if err != nil {
		return err
	}
	return writeCreds(dir, role, func(user string) (string, error) {
		return signUser(dir, signer, core, user, Grant{Name: role}, time.Time{})
	})
}

// writeSystemUser makes the user that tells the engine about accounts that have changed.
func writeSystemUser(dir string) error {
	account, err := readKey(dir, "account-"+sys)
	if err != nil {
		return err
	}
	return writeCreds(dir, "system", func(user string) (string, error) {
		claims := jwt.NewUserClaims(user)
		claims.Name = "system"
		claims.Pub.Allow.Add(claimsUpdate)
		claims.Sub.Allow.Add(streams.Inbox(user) + ".>")
		return claims.Encode(account)
	})
}

func writeCreds(dir, name string, sign func(user string) (string, error)) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	token, err := sign(public(key))
	if err != nil {
		return err
	}
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return err
	}
	return secret.WriteFile(filepath.Join(dir, keysDir, name+".creds"), text)
}

// Connect connects to the engine whose folder is dir, as one who runs it.
func Connect(dir, role string, options ...nats.Option) (*nats.Conn, error) {
	settings, err := ReadSettings(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, keysDir, role+".creds")
	text, err := secret.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.ParseDecoratedUserNKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sum, err := CA(dir)
	if err != nil {
		return nil, err
	}
	options = append([]nats.Option{
		nats.Name("tg-fleet " + role), nats.UserCredentials(path), nats.CustomInboxPrefix(streams.Inbox(public(key))), nats.Secure(Pinned(sum, settings.Engine...)), nats.MaxReconnects(-1), nats.IgnoreDiscoveredServers(),
		nats.Timeout(streams.DialTimeout),
	}, options...)
	address := strings.Join(settings.Engine, ",")
	nc, err := nats.Connect(address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the engine at %s: %w", address, err)
	}
	return nc, nil
}

// CA returns the SHA-256 of the certificate of the engine's own authority, by which
// devices know the engine.
func CA(dir string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, serverDir, "tls/ca.pem"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the authority's certificate of the engine is not in PEM")
	}
	sum := sha256.Sum256(block.Bytes)
	return sum[:], nil
}

// Pinned returns the configuration of TLS for servers at these addresses, which are URLs. Their
// authority has a certificate with that SHA-256, which they send along. Without a digest it is one
// that the system trusts. A server must be certified for its name; one that is addressed by an IP
// number for any of those in the addresses, as crypto/tls does not say which one it is.
func Pinned(ca []byte, addresses ...string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if len(ca) == 0 {
		return config
	}
	config.InsecureSkipVerify = true // VerifyConnection verifies it
	config.VerifyConnection = func(state tls.ConnectionState) error {
		roots := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			if sum := sha256.Sum256(c.Raw); string(sum[:]) == string(ca) {
				roots.AddCert(c)
			}
		}
		leaf := state.PeerCertificates[0]
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: state.ServerName}); err != nil || state.ServerName != "" {
			return err
		}
		err := errors.New("no address names the server")
		for _, address := range addresses {
			u, parseErr := url.Parse(address)
			if parseErr != nil || net.ParseIP(u.Hostname()) == nil {
				continue
			}
			if err = leaf.VerifyHostname(u.Hostname()); err == nil {
				return nil
			}
		}
		return err
	}
	return config
}

const claimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"

// Revoke ends what a device may do: the engine closes its connection and accepts none of
// the JWTs that were signed so far, and the issuer signs no more for it.
func Revoke(ctx context.Context, dir, device string) error {
	if !nkeys.IsValidPublicUserKey(device) {
		return fmt.Errorf("%q is not the key of a device", device)
	}
	admin, err := Connect(dir, Admin)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := changeGrant(ctx, admin, streams.Device(device), func(g *Grant) error { g.Revoked = true; return nil }); err != nil {
		return fmt.Errorf("revoke %s: %w", device, err)
	}
	operator, err := readKey(dir, "operator")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, keysDir, "account-"+edge+".jwt"))
	if err != nil {
		return err
	}
	account, err := jwt.DecodeAccountClaims(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	account.Revoke(device)
	token, err := signAccount(dir, account, operator)
	if err != nil {
		return err
	}
	return updateAccount(ctx, dir, token)
}

// updateAccount tells the engine that an account has changed.
func updateAccount(ctx context.Context, dir, token string) error {
	nc, err := Connect(dir, "system")
	if err != nil {
		return err
	}
	defer nc.Close()
	reply, err := nc.RequestWithContext(ctx, claimsUpdate, []byte(token))
	if err != nil {
		return fmt.Errorf("tell the engine: %w", err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return fmt.Errorf("tell the engine: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("the engine refuses the account: %q", answer.Error.Description)
	}
	return nil
}
