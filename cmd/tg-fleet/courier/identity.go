// Package courier carries between the daemon of this machine and the engine of its fleet:
// records and questions up, policies and decisions down. It decides nothing. What comes
// down is verified by the daemon, and what goes up by those who read it.
package courier

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// An Identity is what a device has after its enrolment. Its key never leaves the machine.
type Identity struct {
	Fleet  string   `json:"fleet"`
	Group  string   `json:"group"`
	Engine []string `json:"engine,omitempty"`
	Policy string   `json:"policy,omitempty"` // as in the token, with OTLP: instead of an engine
	OTLP   string   `json:"otlp,omitempty"`
	Header string   `json:"otlp_header_file,omitempty"` // the path of a file with a header for OTLP
	CA     string   `json:"ca,omitempty"`               // as in the token
	Seed   string   `json:"seed"`                       // of the device's key
	JWT    string   `json:"jwt,omitempty"`              // of the engine
}

// ReadIdentity reads the file that Write has written.
func ReadIdentity(path string) (*Identity, error) {
	text, err := secret.ReadFile(path)
	if err != nil {
		return nil, err
	}
	id := &Identity{}
	if err := json.Unmarshal([]byte(text), id); err != nil {
		return nil, fmt.Errorf("%s is damaged; leave the fleet and join it again: %w", path, err)
	}
	_, err = id.Device()
	return id, err
}

// Write writes the identity into a file that only this user can read.
func (id *Identity) Write(path string) error {
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return secret.WriteFile(path, append(text, '\n'))
}

// claims returns what the JWT says, which must be about this device.
func (id *Identity) claims() (*jwt.UserClaims, error) {
	device, err := id.public()
	if err != nil {
		return nil, err
	}
	claims, err := jwt.DecodeUserClaims(id.JWT)
	if err != nil {
		return nil, fmt.Errorf("the JWT of the device: %w", err)
	}
	if claims.Subject != device {
		return nil, errors.New("the JWT is that of another device")
	}
	return claims, nil
}

// public returns the public part of the device's key.
func (id *Identity) public() (string, error) {
	key, err := nkeys.FromSeed([]byte(id.Seed))
	if err != nil {
		return "", fmt.Errorf("the key of the device: %w", err)
	}
	return key.PublicKey()
}

// Device returns the public key of the device.
func (id *Identity) Device() (string, error) {
	if id.Policy != "" {
		return id.public() // nobody signs it
	}
	claims, err := id.claims()
	if err != nil {
		return "", err
	}
	return claims.Subject, nil
}

// tags returns the values that the JWT has for a name.
func tags(claims *jwt.UserClaims, name string) []string {
	var values []string
	for _, tag := range claims.Tags {
		if value, ok := strings.CutPrefix(tag, name+":"); ok {
			values = append(values, value)
		}
	}
	return values
}

// Enrol exchanges a token for an identity, and returns with it the first root metadata,
// which are those that the token names.
func Enrol(ctx context.Context, token *fleet.Token) (*Identity, []byte, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, nil, err
	}
	id := &Identity{Fleet: token.Fleet, Group: token.Group, Engine: token.Engine, Policy: token.Policy, OTLP: token.OTLP, CA: token.CA, Seed: string(seed)}
	var root []byte
	if id.Policy != "" {
		root, err = id.firstRoot(ctx)
	} else {
		root, err = id.enrolAtEngine(ctx, token.Secret)
	}
	if err != nil {
		return nil, nil, err
	}
	if fleet.Digest(root) != token.Root {
		return nil, nil, errors.New("the fleet's root metadata are not those that the token names; ask your administrator for a new token, and tell them about this one")
	}
	return id, root, nil
}

// enrolAtEngine gets a JWT for the secret of a token, and the first root metadata.
func (id *Identity) enrolAtEngine(ctx context.Context, secret string) ([]byte, error) {
	secretKey, err := engine.SecretKey(secret)
	if err != nil {
		return nil, err
	}
	request := engine.Request{Op: engine.Enrol, Token: hex.EncodeToString(secretKey.Public().(ed25519.PublicKey))}
	if request.Device, err = id.public(); err != nil {
		return nil, err
	}
	request.Sig = ed25519.Sign(secretKey, request.Text())
	if err := id.ask(ctx, request); err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	link, err := id.Connect()
	if err != nil {
		return nil, err
	}
	defer link.Close()
	root, err := streams.Last(ctx, link.Conn, streams.BundleStream, streams.TUF("root", "1"))
	return root.Data, err
}

// renew gets another JWT, also after this one has expired.
func (id *Identity) renew(ctx context.Context) error { return id.again(ctx, engine.Renew) }

// Leave tells the engine that the device leaves the fleet.
func (id *Identity) Leave(ctx context.Context) error { return id.again(ctx, engine.Leave) }

func (id *Identity) again(ctx context.Context, op string) error {
	key, err := nkeys.FromSeed([]byte(id.Seed))
	if err != nil {
		return err
	}
	request := engine.Request{Op: op}
	if request.Device, err = key.PublicKey(); err != nil {
		return err
	}
	if request.Sig, err = key.Sign(request.Text()); err != nil {
		return err
	}
	if err := id.ask(ctx, request); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// maxAnswer is the maximum size of an issuer's answer, in bytes.
const maxAnswer = 64 << 10

// oneTry is how long an issuer may take for an answer. It answers the same device a second time.
const oneTry = 10 * time.Second

// ask asks an issuer, over a connection of its own, for which it needs no JWT. A JWT in
// the answer becomes that of the identity.
func (id *Identity) ask(ctx context.Context, request engine.Request) error {
	config, err := id.tls(id.Engine...)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(strings.Join(id.Engine, ","), nats.Secure(config), nats.CustomInboxPrefix(streams.Inbox("guest")), nats.Timeout(streams.DialTimeout), nats.NoReconnect())
	if err != nil {
		return fmt.Errorf("connect to the engine: %w", err)
	}
	defer nc.Close()
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var answer engine.Answer
	err = streams.Retry(ctx, streams.Patience, oneTry, func(ctx context.Context) error {
		reply, err := nc.RequestWithContext(ctx, streams.Enrol, data)
		if err != nil {
			return err
		}
		answer = engine.Answer{}
		if len(reply.Data) > maxAnswer || json.Unmarshal(reply.Data, &answer) != nil {
			return errors.New("the engine's answer is malformed")
		}
		if answer.Error == engine.Later {
			return streams.ErrLater
		}
		return nil
	})
	if errors.Is(err, nats.ErrNoResponders) {
		return errors.New("nobody answers machines that join; ask your administrator whether \"tgctl fleet issue\" runs")
	}
	if err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("the engine's answer is %.200q", answer.Error)
	}
	if request.Op == engine.Leave {
		return nil
	}
	fresh := *id
	fresh.JWT = answer.JWT
	if _, err := fresh.claims(); err != nil {
		return err
	}
	*id = fresh
	return nil
}

// soon reports whether it is time to renew a JWT that is valid for that long: weeks before
// it expires, so that an issuer may be away for some.
func soon(left time.Duration) bool { return left < engine.Lifetime*3/4 }
