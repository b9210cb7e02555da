package fleet

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	format "github.com/thoughtgate/thoughtgated/internal/fleet"
)

func TestEnrol(t *testing.T) {
	o := newOrganization(t)
	token := o.token(t, engine.Grant{Role: engine.Device, Group: "dev"})
	began := time.Now()
	id, _, err := courier.Enrol(t.Context(), token)
	must(t, err)
	t.Logf("enrolled in %v", time.Since(began))
	if _, _, err := courier.Enrol(t.Context(), token); err == nil || !strings.Contains(err.Error(), "used by another device") {
		t.Errorf("a second device with the same token: %v", err)
	}
	l := o.link(t, id)
	must(t, engine.Revoke(t.Context(), o.dir, l.Device))
	until(t, "the engine closes the connection of a revoked device", func() bool { return !l.IsConnected() })
	if _, err := id.Connect(); err == nil {
		t.Error("a revoked device has connected")
	}
	if err := id.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// A machine that joins while the issuer starts is answered once it has.
func TestEnrolWaits(t *testing.T) {
	o := newEngine(t)
	token := o.token(t, engine.Grant{Role: engine.Device, Group: "dev"})
	enrolled := make(chan error)
	go func() {
		_, _, err := courier.Enrol(t.Context(), token)
		enrolled <- err
	}()
	select {
	case err := <-enrolled:
		t.Fatalf("without an issuer: %v", err)
	case <-time.After(time.Second):
	}
	o.issue(t)
	must(t, next(t, enrolled))
}

// TestEnrolRefused has devices with tokens and engines that are not what they should be.
func TestEnrolRefused(t *testing.T) {
	o := newOrganization(t)
	grant := engine.Grant{Role: engine.Device, Group: "dev"}
	expired, unknown, root, ca := o.token(t, engine.Grant{Role: engine.Device, Group: "dev", Expires: time.Now().Add(-time.Second)}), o.token(t, grant), o.token(t, grant), o.token(t, grant)
	unknown.Secret = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	root.Root, ca.CA = strings.Repeat("0", 64), strings.Repeat("0", 64)
	for want, token := range map[string]*format.Token{
		"the token has expired": expired, "does not know the token": unknown, "root metadata are not those": root, "certificate": ca,
		"revoked": o.token(t, engine.Grant{Role: engine.Admin, Group: "dev"}), // no role of a device
	} {
		if _, _, err := courier.Enrol(t.Context(), token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestForgedRequests has somebody who has no key of a device, nor the secret of a token, ask
// for a JWT, and one ask who has left.
func TestForgedRequests(t *testing.T) {
	o := newOrganization(t)
	id := o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
	device, err := id.Device()
	must(t, err)
	token, err := engine.SecretKey(o.token(t, engine.Grant{Role: engine.Device, Group: "dev"}).Secret)
	must(t, err)
	key := hex.EncodeToString(token.Public().(ed25519.PublicKey))
	mine, err := nkeys.CreateUser()
	must(t, err)
	l := o.link(t, id)
	ask := func(r engine.Request) engine.Answer {
		data, err := json.Marshal(r)
		must(t, err)
		reply, err := l.Request(streams.Enrol, data, time.Minute)
		must(t, err)
		var answer engine.Answer
		must(t, json.Unmarshal(reply.Data, &answer))
		return answer
	}
	sign := func(r engine.Request) []byte {
		sig, err := mine.Sign(r.Text())
		must(t, err)
		return sig
	}
	for _, op := range []string{engine.Renew, engine.Leave, engine.Enrol, "other"} {
		r := engine.Request{Op: op, Device: device, Token: key}
		r.Sig = sign(r)
		if answer := ask(r); answer.JWT != "" || answer.Error == "" {
			t.Errorf("%s, forged: %+v", op, answer)
		}
	}
	owner, err := nkeys.FromSeed([]byte(id.Seed))
	must(t, err)
	mine = owner
	for _, step := range []struct {
		op      string
		refused bool
	}{{engine.Renew, false}, {engine.Leave, false}, {engine.Renew, true}} {
		r := engine.Request{Op: step.op, Device: device}
		r.Sig = sign(r)
		if answer := ask(r); (answer.Error != "") != step.refused {
			t.Errorf("%s: %+v", step.op, answer)
		}
	}
}
