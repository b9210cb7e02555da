package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/secret"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// files are those of the courier, in the state folder.
type files struct {
	paths                              sock.Paths
	identity, state, cursor, key, lock string
}

func filesOf(e env) (files, error) {
	paths, err := sock.DefaultPaths(e.getenv)
	if err != nil {
		return files{}, err
	}
	if err := paths.Prepare(); err != nil {
		return files{}, err
	}
	dir := filepath.Join(paths.State, "fleet")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files{}, err
	}
	return files{
		paths, filepath.Join(dir, "courier.json"), filepath.Join(dir, "courier-state.json"),
		filepath.Join(dir, "courier-sent.json"), filepath.Join(dir, "approver.json"), filepath.Join(dir, "courier.lock"),
	}, nil
}

// maxMessage is the maximum size of a message of the daemon, in bytes, as for its other
// clients.
const maxMessage = 16 << 20

// daemon connects to the daemon, now or whenever it is there.
func daemon(f files) (pb.FleetClient, *grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///thoughtgated",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket and its peer are checked instead
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return sock.Dial(ctx, f.paths.FleetSocket()) }),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, nil, err
	}
	return pb.NewFleetClient(conn), conn, nil
}

// courierOf runs the courier of this machine.
func courierOf(ctx context.Context, _ []string, e env) error {
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	lock, err := sock.Lock(f.lock)
	if err != nil {
		return fmt.Errorf("another courier runs: %w", err)
	}
	defer lock.Close()
	client, conn, err := daemon(f)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &courier.Courier{IdentityPath: f.identity, StatePath: f.state, CursorPath: f.cursor, Daemon: client, Log: e.log}
	if c.Key, err = courier.ReadApproverKey(f.key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = c.Run(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this machine is in no fleet; join one with \"tgctl fleet join\": %w", err)
	}
	return err
}

// maxToken is the maximum size of what is read as a token, in bytes.
const maxToken = 64 << 10

// enrolTimeout is how long an enrolment may take.
const enrolTimeout = time.Minute

func enrol(ctx context.Context, args []string, e env) error {
	flags := flag.NewFlagSet("enrol", flag.ContinueOnError)
	header := flags.String("otlp-header-file", "", "the `FILE` with a header for the collector of a fleet without an engine")
	if _, err := parse(flags, args, e); err != nil {
		return err
	}
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(f.identity); err == nil {
		return errors.New("this machine is in a fleet already; leave that first, with \"tgctl fleet leave\"")
	}
	text, err := io.ReadAll(io.LimitReader(e.stdin, maxToken))
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	token, err := fleet.ParseToken(string(text))
	if err != nil {
		return err
	}
	if *header != "" {
		if _, _, err := courier.ReadHeader(*header); err != nil {
			return err
		}
		if *header, err = filepath.Abs(*header); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, enrolTimeout)
	defer cancel()
	id, root, err := courier.Enrol(ctx, token)
	if err != nil {
		return err
	}
	if id.Header = *header; id.Header != "" && id.OTLP == "" {
		return errors.New("the token names no collector, so there is nothing to send a header to")
	}
	device, err := id.Device()
	if err != nil {
		return err
	}
	// What another membership has sent says nothing about this one.
	if err := errors.Join(os.RemoveAll(f.cursor), id.Write(f.identity)); err != nil {
		return err
	}
	return print(e, map[string]any{"device": device, "root": root, "fleet": id.Fleet, "group": id.Group, "engine": id.Engine})
}

// print writes an object as one line.
func print(e env, object any) error { return json.NewEncoder(e.stdout).Encode(object) }

func leave(ctx context.Context, args []string, e env) error {
	if _, err := parse(flag.NewFlagSet("leave", flag.ContinueOnError), args, e); err != nil {
		return err
	}
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	id, err := courier.ReadIdentity(f.identity)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, enrolTimeout)
	defer cancel()
	told := tellLeft(ctx, id)
	// The machine leaves also if nobody hears that.
	if err := errors.Join(os.Remove(f.identity), os.RemoveAll(f.state), os.RemoveAll(f.cursor)); err != nil {
		return err
	}
	object := map[string]any{"told": told == nil}
	if told != nil {
		object["error"] = told.Error()
	}
	return print(e, object)
}

// tellLeft reports that the device has left, and has it revoked.
func tellLeft(ctx context.Context, id *courier.Identity) error {
	if id.Policy != "" {
		return errors.New("the fleet has no engine")
	}
	link, err := id.Connect()
	if err != nil {
		return err
	}
	defer link.Close()
	return errors.Join(link.ReportLeft(ctx, id.Group, fleet.ModeFloor), id.Leave(ctx))
}

func state(_ context.Context, args []string, e env) error {
	if _, err := parse(flag.NewFlagSet("state", flag.ContinueOnError), args, e); err != nil {
		return err
	}
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	s, err := stateOf(f)
	if err != nil {
		return err
	}
	return print(e, s)
}

// stateOf returns what the courier tells of itself, if one runs.
func stateOf(f files) (courier.State, error) {
	var s courier.State
	pid, err := sock.Holder(f.lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	text, err := secret.ReadFile(f.state)
	if errors.Is(err, fs.ErrNotExist) {
		return courier.State{Running: pid != 0}, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read %s: %w", f.state, err)
	}
	if s.Running = pid != 0; !s.Running {
		s.Connected = false
	}
	return s, nil
}

// outgoing prints what the daemon gives to the courier, which changes nothing of it.
func outgoing(ctx context.Context, args []string, e env) error {
	flags := flag.NewFlagSet("outgoing", flag.ContinueOnError)
	from := flags.Uint64("from", 0, "the first record; 0: the first one since this machine joined")
	follow := flags.Bool("follow", false, "go on with new records")
	if _, err := parse(flags, args, e); err != nil {
		return err
	}
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	client, conn, err := daemon(f)
	if err != nil {
		return err
	}
	defer conn.Close()
	head, err := headOf(ctx, client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var b stream.Batch
	for r, err := range courier.Records(client)(ctx, head.GetLog(), *from) {
		if err != nil {
			return err
		}
		b.Reset()
		courier.Add(&b, r)
		if _, err := e.stdout.Write(b.Raw()); err != nil {
			return err
		}
		if !*follow && r.GetSeq() >= head.GetLogSeq() {
			return nil
		}
	}
	return nil
}

// headOf returns the state of the membership now.
func headOf(ctx context.Context, client pb.FleetClient) (*pb.FleetState, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := client.Watch(ctx, &pb.WatchFleetRequest{})
	if err != nil {
		return nil, err
	}
	head, err := watch.Recv()
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	return head, nil
}

func flush(ctx context.Context, args []string, e env) error {
	flags := flag.NewFlagSet("flush", flag.ContinueOnError)
	timeout := flags.Duration("timeout", time.Minute, "how long to wait")
	if _, err := parse(flags, args, e); err != nil {
		return err
	}
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	id, err := courier.ReadIdentity(f.identity)
	if err != nil {
		return err
	}
	client, conn, err := daemon(f)
	if err != nil {
		return err
	}
	defer conn.Close()
	head, err := headOf(ctx, client)
	if err != nil {
		return err
	}
	last, end, err := sentBy(id, f, head.GetLog())
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	for {
		seq, err := last(ctx)
		if err == nil && seq >= head.GetLogSeq() {
			return print(e, map[string]any{"sent_seq": seq})
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records were sent; is the courier running? \"tgctl fleet status\" says why", seq, head.GetLogSeq())
		case <-time.After(time.Second):
		}
	}
}

// sentBy returns what tells the last record of a log that the engine holds, or the collector has
// acknowledged, and must be ended.
func sentBy(id *courier.Identity, f files, log string) (last func(context.Context) (uint64, error), end func(), err error) {
	switch {
	case id.Policy == "":
		link, err := id.Connect()
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (uint64, error) { return lastStored(ctx, link, log) }, link.Close, nil
	case id.OTLP == "":
		return nil, nil, errors.New("nothing leaves this machine")
	}
	collector, err := courier.NewCollector(id, f.cursor)
	return func(context.Context) (uint64, error) {
		last, err := collector.Last(log)
		return last.Seq, err
	}, func() {}, err
}

// lastStored asks the engine for the last record that it holds of a log.
func lastStored(ctx context.Context, link *courier.Link, log string) (uint64, error) {
	stored, err := streams.Last(ctx, link.Conn, streams.AuditStream, streams.Audit(link.Device, log))
	if err != nil {
		return 0, err
	}
	last, err := stream.Last(stored.Data)
	return last.Seq, err
}

func key(_ context.Context, args []string, e env) error {
	flags := flag.NewFlagSet("key", flag.ContinueOnError)
	signWith := flags.String("sign-with", "", "the `FILE` of the SSH key that signs answers")
	if _, err := parse(flags, args, e); err != nil {
		return err
	}
	f, err := filesOf(e)
	if err != nil {
		return err
	}
	k, err := courier.ReadApproverKey(f.key)
	if errors.Is(err, fs.ErrNotExist) {
		k, err = courier.NewApproverKey()
	}
	if err != nil {
		return err
	}
	if *signWith != "" {
		if k.SignWith, err = filepath.Abs(*signWith); err != nil {
			return err
		}
	}
	if err := k.Write(f.key); err != nil {
		return err
	}
	recipient, err := k.Recipient()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, recipient)
	return err
}
