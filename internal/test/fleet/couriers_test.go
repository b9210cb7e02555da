package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	format "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/test/sshkey"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// testDaemon serves the courier what a test wants, and notes what the courier brings.
type testDaemon struct {
	pb.UnimplementedFleetServer
	device    string
	root      uint64 // version of its root metadata
	log       *daemon
	installs  chan *pb.InstallPolicyRequest
	decisions chan *pb.FleetDecision
	questions chan *pb.FleetQuestion
	foreign   func(context.Context, *pb.ForeignQuestion) (*pb.ForeignAnswer, error)

	mu      sync.Mutex
	pending uint32
	changed chan struct{}
}

func (d *testDaemon) Watch(_ *pb.WatchFleetRequest, s grpc.ServerStreamingServer[pb.FleetState]) error {
	for {
		d.mu.Lock()
		state := &pb.FleetState{
			Device: d.device, Fleet: "acme", Group: "dev", Mode: pb.FleetMode_FLEET_MODE_FLOOR, RootVersion: d.root,
			Log: logID, LogSeq: 1, LogHash: make([]byte, 32), Pending: d.pending, Build: "test",
		}
		changed := d.changed
		d.mu.Unlock()
		if err := s.Send(state); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return nil
		}
	}
}

func (d *testDaemon) wait(pending uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = pending
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *testDaemon) ReadAudit(r *pb.FleetAuditRequest, s grpc.ServerStreamingServer[pb.FleetAuditRecord]) error {
	for record, err := range d.log.read(s.Context(), r.GetLog(), r.GetFrom()) {
		if err != nil {
			return err
		}
		if err := s.Send(record); err != nil {
			return err
		}
	}
	return s.Context().Err()
}

func (d *testDaemon) InstallPolicy(_ context.Context, r *pb.InstallPolicyRequest) (*pb.InstallPolicyResponse, error) {
	d.installs <- r
	return &pb.InstallPolicyResponse{Installed: true}, nil
}

func (d *testDaemon) WatchQuestions(_ *pb.WatchFleetQuestionsRequest, s grpc.ServerStreamingServer[pb.FleetQuestion]) error {
	for {
		select {
		case q := <-d.questions:
			if err := s.Send(q); err != nil {
				return err
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func (d *testDaemon) Decide(_ context.Context, r *pb.FleetDecision) (*pb.FleetDecided, error) {
	d.decisions <- r
	return &pb.FleetDecided{End: "approved"}, nil
}

func (d *testDaemon) Ask(ctx context.Context, q *pb.ForeignQuestion) (*pb.ForeignAnswer, error) {
	return d.foreign(ctx, q)
}

// member is a machine of a fleet: a daemon that the test plays, and a real courier.
type member struct {
	*testDaemon
	id   *courier.Identity
	key  *courier.ApproverKey
	stop func()
}

// newMember enrols a machine. Its courier does not run yet.
func (o *organization) newMember(t *testing.T, g engine.Grant, key *courier.ApproverKey) *member {
	t.Helper()
	id := o.enrol(t, g)
	device, err := id.Device()
	must(t, err)
	dir := t.TempDir()
	must(t, id.Write(filepath.Join(dir, "courier.json")))
	d := &daemon{dir: dir, records: 10}
	must(t, d.write(t.Context()))
	return &member{id: id, key: key, testDaemon: &testDaemon{
		device: device, root: 1, log: d, installs: make(chan *pb.InstallPolicyRequest, 100), decisions: make(chan *pb.FleetDecision, 100),
		questions: make(chan *pb.FleetQuestion, 100), changed: make(chan struct{}),
	}}
}

// start runs the courier until the test ends, or stop is called.
func (m *member) start(t *testing.T) {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer()
	pb.RegisterFleetServer(s, m.testDaemon)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	conn, err := grpc.NewClient("passthrough:///daemon", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c := &courier.Courier{
		IdentityPath: m.log.identity(), StatePath: filepath.Join(m.log.dir, "state.json"), Daemon: pb.NewFleetClient(conn), Key: m.key, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	running.Go(func() {
		if err := c.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	m.stop = sync.OnceFunc(func() {
		cancel()
		conn.Close()
		s.Stop()
		running.Wait()
	})
	t.Cleanup(m.stop)
}

// next returns what comes from a channel soon.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes")
		panic("unreachable")
	}
}

// newApprover makes the keys of an approver, and returns what the policy names for them.
func newApprover(t *testing.T) (key *courier.ApproverKey, recipient string) {
	t.Helper()
	path, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("no ssh-keygen here: ", err)
	}
	key, err = courier.NewApproverKey()
	must(t, err)
	key.SignWith = filepath.Join(t.TempDir(), "id")
	must(t, exec.Command(path, "-q", "-t", "ed25519", "-N", "", "-f", key.SignWith).Run())
	recipient, err = key.Recipient()
	must(t, err)
	return key, recipient
}

// holdInAgent makes an agent with the approver's key the SSH agent of this process.
func holdInAgent(t *testing.T, key *courier.ApproverKey) {
	t.Helper()
	text, err := os.ReadFile(key.SignWith)
	must(t, err)
	private, err := ssh.ParseRawPrivateKey(text)
	must(t, err)
	keys := agent.NewKeyring()
	must(t, keys.Add(agent.AddedKey{PrivateKey: private}))
	sshkey.ServeAgent(t, func(c net.Conn) { _ = agent.ServeAgent(keys, c) }) // its error is that the other end closed
}

// newQuestion returns a question of a device.
func newQuestion(m *member, id string, recipients ...string) *pb.FleetQuestion {
	zeros := format.NewNonce() + format.NewNonce()
	expires := time.Now().Add(time.Minute)
	statement := format.Statement{
		V: format.StatementVersion, Fleet: "acme", Group: "dev", Device: m.device, Question: id, Nonce: format.NewNonce(),
		Digest: zeros, Subject: zeros, Shown: zeros, Server: "files", Method: "tools/call", Tool: "delete", Expires: expires.Unix(),
	}
	return &pb.FleetQuestion{Id: id, Statement: statement.Encode(), Shown: []byte(`{"tool":"delete"}`), Recipients: recipients, Expires: timestamppb.New(expires)}
}

// approves is a user who approves everything, with the key that the courier names.
func approves(_ context.Context, q *pb.ForeignQuestion) (*pb.ForeignAnswer, error) {
	statement, err := format.ParseQuestion(q.GetStatement())
	if err != nil {
		return nil, err
	}
	key, err := format.ParseKey(q.GetKey())
	if err != nil {
		return nil, err
	}
	decided := statement.Decided(format.Approve, key.Fingerprint(), "")
	return &pb.ForeignAnswer{Approved: true, Statement: decided.Encode()}, nil
}

// newPair starts a device that asks, and an approver.
func newPair(t *testing.T) (o *organization, asks, answers *member, recipient string) {
	t.Helper()
	o = newOrganization(t)
	key, recipient := newApprover(t)
	asks = o.newMember(t, engine.Grant{Role: engine.Device, Group: "dev"}, nil)
	answers = o.newMember(t, engine.Grant{Role: engine.Approver, Group: "dev", Approver: streams.Approver(recipient), Asks: []string{"dev"}}, key)
	answers.foreign = approves
	asks.start(t)
	answers.start(t)
	return o, asks, answers, recipient
}

// checkDecision checks that a decision is a signed approval of a question.
func checkDecision(t *testing.T, answers *member, q *pb.FleetQuestion, d *pb.FleetDecision) {
	t.Helper()
	asked, err := format.ParseQuestion(q.GetStatement())
	must(t, err)
	statement, err := format.DecisionOn(asked, d.GetStatement())
	must(t, err)
	if d.GetId() != q.GetId() || statement.Verdict != format.Approve {
		t.Errorf("question %s: decision %s: %s", q.GetId(), d.GetId(), d.GetStatement())
	}
	public, err := os.ReadFile(answers.key.SignWith + ".pub")
	must(t, err)
	key, err := format.ParseKey(string(public))
	must(t, err)
	must(t, key.Verify(format.Namespace, d.GetStatement(), d.GetSignature()))
}

// What a courier tells of itself says that it is connected as soon as it is, also while there is nothing to send.
func TestStateOfCourier(t *testing.T) {
	o := newOrganization(t)
	m := o.newMember(t, engine.Grant{Role: engine.Device, Group: "dev"}, nil)
	m.start(t)
	path := filepath.Join(m.log.dir, "state.json")
	until(t, "the courier tells that it is connected", func() bool {
		text, err := os.ReadFile(path)
		var s courier.State
		return err == nil && json.Unmarshal(text, &s) == nil && s.Connected && s.Engine != ""
	})
}
