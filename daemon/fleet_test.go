package daemon_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// joinFleet makes the machine a member of a fleet.
func (h *home) joinFleet(t *testing.T) *pb.FleetState {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	one := tuf.Signers{Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, Threshold: 1}
	var r tuf.Repository
	if err := r.AddRoot(tuf.Roles{Root: one, Timestamp: one, Snapshot: one, Targets: one}, time.Now().Add(time.Hour), []crypto.Signer{key}...); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(r.Roots[0])
	state, err := h.control(t).JoinFleet(t.Context(), &pb.JoinFleetRequest{
		Device: "U" + strings.Repeat("A", 55), Fleet: "acme", Group: "eng", Mode: pb.FleetMode_FLEET_MODE_FLOOR,
		Engine: []string{"tls://fleet.example:4222"}, RootDigest: digest[:], Root: r.Roots[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// courier returns a client of fleet.sock, which may take a moment to be there.
func courier(t *testing.T, socket string) pb.FleetClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewFleetClient(conn)
}

func TestFleetSocket(t *testing.T) {
	h := newHome(t, someRules)
	_, stop := h.start(t)
	path := h.paths.FleetSocket()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a fleet there is a socket: %v", err)
	}
	if m, err := h.control(t).Membership(t.Context()); err != nil || m.GetDevice() != "" {
		t.Errorf("member of %v, %v", m, err)
	}
	if _, err := h.control(t).LeaveFleet(t.Context(), &pb.LeaveFleetRequest{}); !errors.Is(err, client.ErrNoFleet) {
		t.Errorf("left no fleet: %v", err)
	}
	if state := h.joinFleet(t); state.GetGroup() != "eng" || state.GetMode() != pb.FleetMode_FLEET_MODE_FLOOR || len(state.GetLogHash()) != sha256.Size {
		t.Errorf("joined: %v", state)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := courier(t, path)
	watch, err := c.Watch(ctx, &pb.WatchFleetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch.Recv()
	if err != nil || first.GetFleet() != "acme" {
		t.Fatalf("watched %v, %v", first, err)
	}
	if err := sock.CheckSocket(path); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the daemon: %v", err)
	}
	h.start(t) // the next daemon is a member, too
	if watch, err = c.Watch(ctx, &pb.WatchFleetRequest{}); err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.control(t).LeaveFleet(t.Context(), &pb.LeaveFleetRequest{}); err != nil {
		t.Fatal(err)
	}
	for err == nil { // perhaps with the state that it has left
		_, err = watch.Recv()
	}
	if ctx.Err() != nil {
		t.Error("the courier of a fleet that was left stays connected")
	}
	var got []string
	for _, r := range h.records(t, string(record.KindFleet)) {
		rec, err := record.Parse(r.GetLine())
		if err != nil || rec.Peer == nil || rec.Peer.PID != int32(os.Getpid()) {
			t.Errorf("recorded %s (%v)", r.GetLine(), err)
		}
		got = append(got, rec.Verdict)
	}
	if strings.Join(got, " ") != "joined left" {
		t.Errorf("records: %v", got)
	}
}

// What leaves are the stored records, without what they contain, from the join on, and then the new ones.
func TestFleetReadsAudit(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	h.joinFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := courier(t, h.paths.FleetSocket())
	stream, err := c.ReadAudit(ctx, &pb.FleetAuditRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *record.Record {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		r, err := record.Parse(m.GetLine())
		if err != nil || len(m.GetValues()) > 0 || m.GetSeq() != r.Seq {
			t.Fatalf("%s with values %q: %v", m.GetLine(), m.GetValues(), err)
		}
		return &r
	}
	r := next()
	if r.Kind != record.KindFleet || r.Verdict != "joined" {
		t.Errorf("the first is %+v", r)
	}
	joined := r.Seq
	for code, req := range map[codes.Code]*pb.FleetAuditRequest{codes.OutOfRange: {From: 1 << 40}, codes.NotFound: {Log: "OTHER"}} {
		other, err := c.ReadAudit(ctx, req)
		if err == nil {
			_, err = other.Recv()
		}
		if status.Code(err) != code {
			t.Errorf("%v: %v", req, err)
		}
	}
	second, err := c.ReadAudit(ctx, &pb.FleetAuditRequest{})
	if err == nil {
		_, err = second.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	third, err := c.ReadAudit(ctx, &pb.FleetAuditRequest{})
	if err == nil {
		_, err = third.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a third reader: %v", err)
	}
	a := h.attach(t) // from here on this process counts as an agent, and carries nothing more
	a.expect("deny", "nothing is deleted", "delete_file")
	for seq := joined + 1; ; seq++ {
		if r = next(); r.Seq != seq {
			t.Fatalf("record %d after record %d", r.Seq, seq-1)
		}
		if r.Kind == record.KindCall {
			break
		}
	}
	if r.Tool != "delete_file" || r.Values == "" {
		t.Errorf("the call is recorded as %+v", r)
	}
}

// fleetSocketVar names the socket that a child of the test connects to.
const fleetSocketVar = "TEST_FLEET_SOCKET"

// No process below an agent, or below the daemon, carries for the fleet.
func TestNoAgentCarriesForTheFleet(t *testing.T) {
	if socket := os.Getenv(fleetSocketVar); socket != "" {
		c := courier(t, socket)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		watch, err := c.Watch(ctx, &pb.WatchFleetRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		_, ask := c.Ask(ctx, &pb.ForeignQuestion{})
		_, decide := c.Decide(ctx, &pb.FleetDecision{})
		_, install := c.InstallPolicy(ctx, &pb.InstallPolicyRequest{})
		for _, err := range []error{err, ask, decide, install} {
			if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "agent") {
				t.Errorf("%v", err)
			}
		}
		return
	}
	h := newHome(t, someRules)
	h.start(t)
	h.joinFleet(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoAgentCarriesForTheFleet$", "-test.v")
	cmd.Env = append(os.Environ(), fleetSocketVar+"="+h.paths.FleetSocket(), "THOUGHTGATE_ACTIVE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	if denied := h.records(t, string(record.KindDenied)); len(denied) != 4 {
		t.Errorf("%d refusals are recorded", len(denied))
	}
}
