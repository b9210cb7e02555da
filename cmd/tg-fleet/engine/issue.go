package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
)

// What a device asks an issuer for.
const (
	Enrol = "enrol" // a JWT, for a token
	Renew = "renew" // another JWT
	Leave = "leave" // that it gets no more
)

// Lifetime is how long a JWT of a device is valid. A device renews it while it is
// connected, and can do so after it has expired, too.
const Lifetime = 30 * day

// A Request is what a device asks an issuer for. The engine sees it, so it has no secret:
// the secret of a token is a key, which signs, and the engine knows its public half.
type Request struct {
	Op     string `json:"op"`
	Device string `json:"device"`          // the public key of the device
	Token  string `json:"token,omitempty"` // to enrol: the public half of the token's secret, in hex
	Sig    []byte `json:"sig"`             // over Text; to enrol by the token's secret, else by the device's key
}

// Text returns what a request signs.
func (r *Request) Text() []byte {
	return []byte("thoughtgate-fleet " + r.Op + " " + r.Device + " " + r.Token)
}

// An Answer is an issuer's.
type Answer struct {
	JWT   string `json:"jwt,omitempty"`
	Error string `json:"error,omitempty"`
}

// Later is the error of an answer to a request that may be made again.
const Later = "the issuer can't do that now; try again later"

// answerTimeout is how long the streams may take for one request. Others wait meanwhile, and
// who is told Later asks again.
const answerTimeout = 5 * time.Second

// maxRequest is the maximum size of a request, in bytes.
const maxRequest = 4 << 10

// SecretKey returns the key that the secret of a token is.
func SecretKey(secret string) (ed25519.PrivateKey, error) {
	seed, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("the secret of the token is malformed")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// NewToken makes the engine take a new token with that grant, and returns the token's
// secret.
func NewToken(ctx context.Context, nc *nats.Conn, g Grant) (string, error) {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	key := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	none := uint64(0)
	if err := putGrant(ctx, nc, streams.Token(hex.EncodeToString(key)), g, &none); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(seed), nil
}

func putGrant(ctx context.Context, nc *nats.Conn, subject string, g Grant, last *uint64) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = streams.Put(ctx, nc, &nats.Msg{Subject: subject, Data: data}, last)
	return err
}

func readGrant(ctx context.Context, nc *nats.Conn, subject string) (Grant, uint64, error) {
	stored, err := streams.Last(ctx, nc, streams.EnrolStream, subject)
	if err != nil {
		return Grant{}, 0, err
	}
	var g Grant
	if err := json.Unmarshal(stored.Data, &g); err != nil {
		return Grant{}, 0, fmt.Errorf("read %s: %w", subject, err)
	}
	return g, stored.Seq, nil
}

// changeGrant changes a stored grant. Of several who do that at once, one gets no error.
func changeGrant(ctx context.Context, nc *nats.Conn, subject string, change func(*Grant) error) error {
	g, seq, err := readGrant(ctx, nc, subject)
	if err != nil {
		return err
	}
	if err := change(&g); err != nil {
		return err
	}
	return putGrant(ctx, nc, subject, g, &seq)
}

// errRefused is the error of a request that gets no JWT, whatever the device does.
var errRefused = errors.New("refused")

// An issuer answers requests.
type issuer struct {
	nc      *nats.Conn
	account string // of devices
	signers map[string]nkeys.KeyPair
	now     func() time.Time
}

// Issue answers the requests of devices with the keys in the engine's folder dir, until
// ctx ends. It calls ready once the engine passes requests on to it.
func Issue(ctx context.Context, dir string, nc *nats.Conn, log *slog.Logger, ready func()) error {
	account, err := readKey(dir, "account-"+edge)
	if err != nil {
		return err
	}
	i := issuer{nc: nc, account: public(account), signers: map[string]nkeys.KeyPair{}, now: time.Now}
	for _, role := range []string{Device, Approver} {
		if i.signers[role], err = readKey(dir, "role-"+role); err != nil {
			return err
		}
	}
	requests, err := nc.QueueSubscribeSync(streams.Enrol, "issuers")
	if err != nil {
		return err
	}
	if err := nc.FlushTimeout(streams.Patience); err != nil { // until then, the engine may not have the subscription
		return fmt.Errorf("tell the engine that requests are answered: %w", err)
	}
	ready()
	for {
		msg, err := requests.NextMsgWithContext(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, nats.ErrSlowConsumer) {
			continue // who gets no answer asks again
		}
		if err != nil {
			return fmt.Errorf("wait for devices: %w", err)
		}
		var request Request
		one, cancel := context.WithTimeout(ctx, answerTimeout)
		token, err := i.answer(one, msg.Data, &request)
		cancel()
		answer := Answer{JWT: token}
		switch {
		case errors.Is(err, errRefused):
			answer.Error = err.Error()
		case err != nil:
			answer.Error = Later
		}
		if err != nil {
			log.Warn("refused a device", "op", request.Op, "key", request.Device, "error", err)
		} else {
			log.Info("answered a device", "op", request.Op, "key", request.Device)
		}
		data, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		if err := msg.Respond(data); err != nil {
			log.Warn("answer a device", "error", err)
		}
	}
}

// answer returns the JWT that a request gets.
func (i *issuer) answer(ctx context.Context, data []byte, r *Request) (string, error) {
	if len(data) > maxRequest || json.Unmarshal(data, r) != nil || fleet.CheckDevice(r.Device) != nil || !nkeys.IsValidPublicUserKey(r.Device) {
		*r = Request{}
		return "", fmt.Errorf("%w: the request is malformed", errRefused)
	}
	switch r.Op {
	case Enrol:
		return i.enrol(ctx, r)
	case Renew, Leave:
		return i.again(ctx, r)
	}
	r.Op = ""
	return "", fmt.Errorf("%w: the request is malformed", errRefused)
}

// enrol exchanges a token for a JWT. The same device may ask again, if the answer was lost.
func (i *issuer) enrol(ctx context.Context, r *Request) (string, error) {
	key, err := hex.DecodeString(r.Token)
	if err != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, r.Text(), r.Sig) {
		return "", fmt.Errorf("%w: the token's signature is wrong", errRefused)
	}
	subject := streams.Token(hex.EncodeToString(key))
	g, seq, err := readGrant(ctx, i.nc, subject)
	switch {
	case errors.Is(err, streams.ErrNone):
		return "", fmt.Errorf("%w: the engine does not know the token", errRefused)
	case err != nil:
		return "", err
	case g.Device != "" && g.Device != r.Device:
		return "", fmt.Errorf("%w: the token was used by another device", errRefused)
	case i.now().After(g.Expires):
		return "", fmt.Errorf("%w: the token has expired", errRefused)
	}
	g.Device = r.Device
	if err := putGrant(ctx, i.nc, subject, g, &seq); err != nil {
		return "", err
	}
	// A device that has left, or was revoked, does not come back with the token that it had.
	device, last, err := readGrant(ctx, i.nc, streams.Device(r.Device))
	switch {
	case errors.Is(err, streams.ErrNone):
		if err := putGrant(ctx, i.nc, streams.Device(r.Device), g, &last); err != nil {
			return "", err
		}
		device = g
	case err != nil:
		return "", err
	}
	return i.sign(r.Device, device)
}

// again answers a device that is enrolled already.
func (i *issuer) again(ctx context.Context, r *Request) (string, error) {
	key, err := nkeys.FromPublicKey(r.Device)
	if err != nil || key.Verify(r.Text(), r.Sig) != nil {
		return "", fmt.Errorf("%w: the device's signature is wrong", errRefused)
	}
	subject := streams.Device(r.Device)
	if r.Op == Leave {
		return "", changeGrant(ctx, i.nc, subject, func(g *Grant) error { g.Revoked = true; return nil })
	}
	g, _, err := readGrant(ctx, i.nc, subject)
	if errors.Is(err, streams.ErrNone) {
		return "", fmt.Errorf("%w: the engine does not know the device", errRefused)
	}
	if err != nil {
		return "", err
	}
	return i.sign(r.Device, g)
}

func (i *issuer) sign(device string, g Grant) (string, error) {
	signer, ok := i.signers[g.Role]
	if g.Revoked || !ok {
		return "", fmt.Errorf("%w: the device was revoked, or has left", errRefused)
	}
	return sign(signer, i.account, device, g, i.now().Add(Lifetime))
}
