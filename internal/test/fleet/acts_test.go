package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

// soonAfter is how long the engine may take for what a test waits for in vain.
const soonAfter = 300 * time.Millisecond

// acts is what a device, an approver and a victim find on the engine.
type acts struct {
	*organization
	a, b, p *courier.Link // a device that attacks, its victim, and an approver who attacks
	js      jetstream.JetStream
}

func newActs(t *testing.T) *acts {
	t.Helper()
	x := &acts{organization: newOrganization(t)}
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	x.a = x.link(t, x.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"}), quiet)
	x.b = x.link(t, x.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"}))
	x.p = x.link(t, x.enrol(t, engine.Grant{Role: engine.Approver, Group: "dev", Approver: streams.Approver("age1p"), Asks: []string{"dev"}}), quiet)
	var err error
	x.js, err = jetstream.New(x.admin)
	must(t, err)
	// What is there to be overwritten, read or removed.
	for _, message := range []struct {
		nc            *nats.Conn
		subject, data string
	}{
		{x.b.Conn, streams.Audit(x.b.Device, "log"), "of the victim"},
		{x.a.Conn, streams.Audit(x.a.Device, "log"), "of the attacker"},
		{x.b.Conn, streams.Seen(x.b.Device), "of the victim"},
		{x.b.Conn, streams.Ask("dev", x.b.Device, "Q"), "sealed"},
		{x.admin, streams.Policy("dev"), "the policy"},
		{x.admin, streams.Policy("ops"), "another policy"},
		{x.p.Conn, streams.Decide(x.b.Device, "Q", streams.Approver("age1p")), "no"},
	} {
		_, err := streams.Put(t.Context(), message.nc, &nats.Msg{Subject: message.subject, Data: []byte(message.data)}, nil)
		must(t, err)
	}
	return x
}

// state is what all streams have: their configuration, counts and last messages.
func (x *acts) state(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"AUDIT", "ASK", "DECIDE", "POLICY", "BUNDLE", "SEEN", "ENROL"} {
		stream, err := x.js.Stream(t.Context(), name)
		must(t, err)
		info, err := stream.Info(t.Context())
		must(t, err)
		config, err := json.Marshal(info.Config)
		must(t, err)
		fmt.Fprintf(&all, "%s %s %d %d %d consumers %d\n", name, config, info.State.Msgs, info.State.LastSeq, info.State.Bytes, info.State.Consumers)
	}
	return all.String()
}

// TestForbiddenActs has a device and an approver do what they must not. What they publish
// changes no stream, and what they ask for does not come.
func TestForbiddenActs(t *testing.T) {
	x := newActs(t)
	a, b, p := x.a.Device, x.b.Device, x.p.Device
	me := streams.Approver("age1p")
	own := streams.Audit(a, "log")
	publishes := []struct {
		name    string
		nc      *nats.Conn
		subject string
		reply   string
		header  nats.Header
		data    string
	}{
		{"a record of another device", x.a.Conn, streams.Audit(b, "log"), "", nil, "x"},
		{"a report of another device", x.a.Conn, streams.Seen(b), "", nil, "x"},
		{"a question of another device", x.a.Conn, streams.Ask("dev", b, "Q"), "", nil, "x"},
		{"a question to another group", x.a.Conn, streams.Ask("ops", a, "Q"), "", nil, "x"},
		{"a policy", x.a.Conn, streams.Policy("dev"), "", nil, "x"},
		{"a bundle", x.a.Conn, streams.Bundle("aa"), "", nil, "x"},
		{"metadata", x.a.Conn, streams.TUF("root", "2"), "", nil, "x"},
		{"a token", x.a.Conn, streams.Token("aa"), "", nil, "{}"},
		{"what a device may do", x.a.Conn, streams.Device(a), "", nil, `{"role":"approver"}`},
		{"a decision, as a device", x.a.Conn, streams.Decide(b, "Q", me), "", nil, "x"},
		{"a decision as another approver", x.p.Conn, streams.Decide(b, "Q", streams.Approver("age1q")), "", nil, "x"},
		{"a decision of one's own question", x.p.Conn, streams.Decide(p, "Q", me), "", nil, "x"},
		{"another decision of the same question", x.p.Conn, streams.Decide(b, "Q", me), "_INBOX_" + p + ".x", nil, "yes"},
		{"a decision that vanishes", x.p.Conn, streams.Decide(b, "R", me), "_INBOX_" + p + ".x", nats.Header{"Nats-TTL": {"1"}}, "yes"},
		{"a record that vanishes", x.a.Conn, own, "_INBOX_" + a + ".x", nats.Header{"Nats-TTL": {"1"}}, "x"},
		{"a record in place of all", x.a.Conn, own, "_INBOX_" + a + ".x", nats.Header{"Nats-Rollup": {"sub"}}, "x"},
		{"a record in place of another", x.a.Conn, own, "_INBOX_" + a + ".x", nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}}, "x"},
		{"a record for later", x.a.Conn, own, "_INBOX_" + a + ".x", nats.Header{"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {streams.Audit(b, "log")}}, "x"},
		{"delete the record", x.a.Conn, "$JS.API.STREAM.DELETE.AUDIT", "_INBOX_" + a + ".x", nil, ""},
		{"purge the record", x.a.Conn, "$JS.API.STREAM.PURGE.AUDIT", "_INBOX_" + a + ".x", nil, ""},
		{"delete a message of the record", x.a.Conn, "$JS.API.STREAM.MSG.DELETE.AUDIT", "_INBOX_" + a + ".x", nil, `{"seq":1}`},
		{"change a stream", x.p.Conn, "$JS.API.STREAM.UPDATE.DECIDE", "_INBOX_" + p + ".x", nil, `{"name":"DECIDE"}`},
		{"make a consumer", x.a.Conn, "$JS.API.CONSUMER.CREATE.AUDIT", "_INBOX_" + a + ".x", nil, `{"stream_name":"AUDIT","config":{"deliver_subject":"` + "_INBOX_" + a + `.x"}}`},
		{"purge, as an admin", x.admin, "$JS.API.STREAM.PURGE.AUDIT", "_INBOX_x", nil, ""},
		{"delete, as an admin", x.admin, "$JS.API.STREAM.DELETE.AUDIT", "_INBOX_x", nil, ""},
		{"shorten the record, as an admin", x.admin, "$JS.API.STREAM.UPDATE.AUDIT", "_INBOX_x", nil, `{"name":"AUDIT","subjects":["tg.audit.*.*"],"max_msgs":1,"storage":"file"}`},
	}
	// The same by the subject to which an answer goes: of a stored record, of one that is
	// read, and of a request for enrolment.
	for _, subject := range []string{
		streams.Audit(b, "log"), streams.Seen(b), streams.Ask("dev", b, "Q"), streams.Policy("dev"), streams.Bundle("aa"), streams.Token("aa"), streams.Device(a),
		streams.Decide(b, "R", me), "$JS.API.STREAM.PURGE.AUDIT", "$JS.API.STREAM.DELETE.ASK", "$JS.ACK.AUDIT.x.1.1.1.1.1", "$SYS.REQ.CLAIMS.UPDATE",
	} {
		for _, request := range []string{streams.Get(streams.AuditStream, own), streams.Enrol, streams.Get(streams.PolicyStream, streams.Policy("dev"))} {
			publishes = append(publishes, struct {
				name    string
				nc      *nats.Conn
				subject string
				reply   string
				header  nats.Header
				data    string
			}{"the answer of " + request + " to " + subject, x.a.Conn, request, subject, nil, ""})
		}
	}
	for _, act := range publishes {
		before := x.state(t)
		must(t, act.nc.PublishMsg(&nats.Msg{Subject: act.subject, Reply: act.reply, Header: act.header, Data: []byte(act.data)}))
		x.settle(t, act.nc)
		if after := x.state(t); after != before {
			t.Errorf("%s: before:\n%s\nafter:\n%s", act.name, before, after)
		}
	}
}

// settle returns when the engine has done what a connection has asked for.
func (x *acts) settle(t *testing.T, nc *nats.Conn) {
	t.Helper()
	must(t, nc.FlushTimeout(time.Minute))
	_, err := streams.Last(t.Context(), x.b.Conn, streams.PolicyStream, streams.Policy("dev"))
	must(t, err)
}

// TestAimedAcknowledgement has the acknowledgement of a device's own record sent to where
// another device's are stored. The own record is stored, and nothing else.
func TestAimedAcknowledgement(t *testing.T) {
	x := newActs(t)
	b := x.b.Device
	for _, reply := range []string{streams.Audit(b, "log"), streams.Seen(b), streams.Policy("dev"), streams.Ask("dev", b, "Q"), streams.Decide(b, "R", streams.Approver("age1p"))} {
		before, err := streams.Last(t.Context(), x.b.Conn, streams.AuditStream, streams.Audit(b, "log"))
		must(t, err)
		stream, err := x.js.Stream(t.Context(), "AUDIT")
		must(t, err)
		was := stream.CachedInfo().State
		must(t, x.a.PublishMsg(&nats.Msg{Subject: streams.Audit(x.a.Device, "log"), Reply: reply, Data: []byte("mine")}))
		x.settle(t, x.a.Conn)
		after, err := streams.Last(t.Context(), x.b.Conn, streams.AuditStream, streams.Audit(b, "log"))
		must(t, err)
		info, err := stream.Info(t.Context())
		must(t, err)
		if after.Seq != before.Seq || info.State.Msgs != was.Msgs+1 {
			t.Errorf("to %s: %d messages more, the victim's last is %d, and was %d", reply, info.State.Msgs-was.Msgs, after.Seq, before.Seq)
		}
		for _, name := range []string{"SEEN", "POLICY", "ASK", "DECIDE"} {
			other, err := x.js.Stream(t.Context(), name)
			must(t, err)
			if state := other.CachedInfo().State; state.LastSeq > uint64(map[string]int{"SEEN": 1, "POLICY": 2, "ASK": 1, "DECIDE": 1}[name]) {
				t.Errorf("to %s: %s has message %d", reply, name, state.LastSeq)
			}
		}
	}
}

// TestForbiddenReads has a device and an approver read what is not theirs.
func TestForbiddenReads(t *testing.T) {
	x := newActs(t)
	a, b := x.a.Device, x.b.Device
	for name, act := range map[string]struct {
		nc      *nats.Conn
		subject string
		data    string
	}{
		"records of another device":   {x.a.Conn, streams.Get(streams.AuditStream, streams.Audit(b, "log")), ""},
		"records, by sequence":        {x.a.Conn, "$JS.API.DIRECT.GET.AUDIT", `{"seq":1}`},
		"records, over an own one":    {x.a.Conn, streams.Get(streams.AuditStream, streams.Audit(a, "log")), `{"seq":1}`},
		"records, as a message":       {x.a.Conn, "$JS.API.STREAM.MSG.GET.AUDIT", `{"seq":1}`},
		"the policy of another group": {x.a.Conn, streams.Get(streams.PolicyStream, streams.Policy("ops")), ""},
		"decisions for another":       {x.a.Conn, streams.Get(streams.DecideStream, streams.Decide(b, "Q", streams.Approver("age1p"))), ""},
		"questions":                   {x.a.Conn, "$JS.API.DIRECT.GET.ASK", `{"multi_last":["tg.ask.>"]}`},
		"reports":                     {x.p.Conn, streams.Get(streams.SeenStream, streams.Seen(b)), ""},
		"tokens":                      {x.p.Conn, "$JS.API.DIRECT.GET.ENROL", `{"seq":1}`},
		"which streams there are":     {x.p.Conn, "$JS.API.STREAM.LIST", ""},
		"the account":                 {x.p.Conn, "$JS.API.INFO", ""},
		"who is connected":            {x.p.Conn, "$SYS.REQ.SERVER.PING.CONNZ", ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soonAfter)
		reply, err := act.nc.RequestWithContext(ctx, act.subject, []byte(act.data))
		cancel()
		if err == nil && reply.Header.Get("Status") == "" {
			t.Errorf("%s: %q", name, reply.Data)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	subscriptions := map[string]*nats.Subscription{}
	for name, act := range map[string]struct {
		nc      *nats.Conn
		subject string
	}{
		"all": {x.a.Conn, ">"}, "all records": {x.a.Conn, "tg.audit.>"}, "answers to another": {x.a.Conn, streams.Inbox(b) + ".>"},
		"decisions for another": {x.a.Conn, streams.LiveDecisions(b)}, "policies of another group": {x.a.Conn, streams.LivePolicy("ops")},
		"questions, as a device": {x.a.Conn, streams.LiveAsks("dev")}, "questions of another group": {x.p.Conn, streams.LiveAsks("ops")},
		"enrolments": {x.a.Conn, streams.Enrol}, "what is refused": {x.a.Conn, "$JS.EVENT.>"}, "of the system": {x.p.Conn, "$SYS.>"},
	} {
		s, err := act.nc.SubscribeSync(act.subject)
		must(t, err)
		subscriptions[name] = s
	}
	x.settle(t, x.a.Conn)
	x.settle(t, x.p.Conn)
	x.enrol(t, engine.Grant{Role: engine.Device, Group: "ops"})
	for _, message := range []struct {
		nc      *nats.Conn
		subject string
	}{
		{x.b.Conn, streams.Audit(b, "log")}, {x.b.Conn, streams.Ask("dev", b, "R")}, {x.admin, streams.Policy("ops")},
		{x.p.Conn, streams.Decide(b, "S", streams.Approver("age1p"))},
	} {
		_, err := streams.Put(t.Context(), message.nc, &nats.Msg{Subject: message.subject, Data: []byte("x")}, nil)
		must(t, err)
	}
	time.Sleep(soonAfter)
	for name, s := range subscriptions {
		if msg, err := s.NextMsg(time.Millisecond); err == nil {
			t.Errorf("%s: got %s: %q", name, msg.Subject, msg.Data)
		}
	}
}

// TestAimedAtSubscriptions has answers sent to what another device subscribes to. They come
// there, and are not taken for what a stream has republished.
func TestAimedAtSubscriptions(t *testing.T) {
	x := newActs(t)
	live, err := x.b.SubscribeSync(streams.LivePolicy("dev"))
	must(t, err)
	x.settle(t, x.b.Conn)
	own := streams.Audit(x.a.Device, "log")
	forged := nats.Header{"Nats-Stream": {"POLICY"}, "Nats-Subject": {streams.Policy("dev")}, "Nats-Sequence": {"99"}}
	_, err = streams.Put(t.Context(), x.a.Conn, &nats.Msg{Subject: own, Data: []byte("a forged policy"), Header: forged}, nil)
	must(t, err)
	must(t, x.a.PublishRequest(streams.Get(streams.AuditStream, own), streams.LivePolicy("dev"), nil))
	must(t, x.a.PublishMsg(&nats.Msg{Subject: own, Reply: streams.LivePolicy("dev"), Header: forged}))
	must(t, x.a.PublishRequest(streams.Get(streams.PolicyStream, streams.Policy("dev")), streams.LivePolicy("dev"), nil)) // true, and old
	x.settle(t, x.a.Conn)
	_, err = streams.Put(t.Context(), x.admin, &nats.Msg{Subject: streams.Policy("dev"), Data: []byte("a true policy")}, nil)
	must(t, err)
	for {
		msg, err := live.NextMsg(time.Minute)
		must(t, err)
		stored, ok := streams.Live(msg, streams.PolicyStream)
		if !ok {
			continue
		}
		if string(stored.Data) == "a true policy" {
			return
		}
		if string(stored.Data) != "the policy" {
			t.Fatalf("taken: %q", stored.Data)
		}
	}
}
