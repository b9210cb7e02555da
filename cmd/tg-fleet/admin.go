package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/logs"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxInline is the largest policy that travels in the push itself, in bytes.
const maxInline = 16 << 10

// maxRequest bounds what publish reads.
const maxRequest = 16 << 20

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return "" }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// initEngine makes the folder of a new fleet.
func initEngine(_ context.Context, args []string, e env) error {
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	name := flags.String("name", "", "the `NAME` of the fleet")
	at := flags.String("at", "", "the absolute `PATH` of the folder server on the engine's machine; without it ADMIN/server")
	var addresses list
	flags.Var(&addresses, "address", "an `ADDRESS` of the engine, as tls://HOST:PORT or wss://HOST:PORT; one or three")
	words, err := parse(flags, args, e, "ADMIN")
	if err != nil {
		return err
	}
	return engine.Init(words[0], engine.Options{Fleet: *name, Engine: addresses, At: *at})
}

// as connects to the engine of a folder, and calls do.
func as(folder, role string, do func(*nats.Conn) error) error {
	nc, err := engine.Connect(folder, role)
	if err != nil {
		return fmt.Errorf("connect to the engine: %w", err)
	}
	defer nc.Close()
	return do(nc)
}

// apply makes the streams.
func apply(ctx context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("apply", flag.ContinueOnError), args, e, "ADMIN")
	if err != nil {
		return err
	}
	settings, err := engine.ReadSettings(words[0])
	if err != nil {
		return err
	}
	return as(words[0], engine.Admin, func(nc *nats.Conn) error { return engine.Apply(ctx, nc, len(settings.Engine)) })
}

// issue answers devices until ctx ends.
func issue(ctx context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("issue", flag.ContinueOnError), args, e, "ADMIN")
	if err != nil {
		return err
	}
	return as(words[0], engine.Issuer, func(nc *nats.Conn) error {
		return engine.Issue(ctx, words[0], nc, e.log, func() { e.log.Info("machines can join") })
	})
}

// token prints a token.
func token(ctx context.Context, args []string, e env) error {
	flags := flag.NewFlagSet("token", flag.ContinueOnError)
	group := flags.String("group", "", "the `GROUP` of the machine")
	role := flags.String("role", string(fleet.RoleDevice), "device or approver")
	mode := flags.String("mode", "", "floor or full")
	root := flags.String("root", "", "the hex SHA-256 of the first root metadata")
	recipient := flags.String("recipient", "", "the age `RECIPIENT` of an approver")
	valid := flags.Duration("for", 24*time.Hour, "how long the token is valid")
	words, err := parse(flags, args, e, "ADMIN")
	if err != nil {
		return err
	}
	settings, err := engine.ReadSettings(words[0])
	if err != nil {
		return err
	}
	ca, err := engine.CA(words[0])
	if err != nil {
		return err
	}
	t := fleet.Token{V: fleet.TokenVersion, Fleet: settings.Fleet, Engine: settings.Engine, CA: hex.EncodeToString(ca), Root: *root, Group: *group, Mode: fleet.Mode(*mode), Role: fleet.Role(*role), Until: time.Now().Add(*valid).Unix()}
	grant := engine.Grant{Role: *role, Group: *group, Expires: time.Now().Add(*valid)}
	switch {
	case t.Role == fleet.RoleApprover && *recipient == "":
		return errors.New("an approver's token needs the key to which questions are sealed; see: tgctl fleet key")
	case t.Role == fleet.RoleApprover:
		grant.Approver, grant.Asks = streams.Approver(*recipient), []string{*group}
	}
	return as(words[0], engine.Admin, func(nc *nats.Conn) error {
		if t.Secret, err = engine.NewToken(ctx, nc, grant); err != nil {
			return fmt.Errorf("make a token: %w", err)
		}
		if _, err := fleet.ParseToken(t.String()); err != nil { // before anybody tries to use it
			return err
		}
		_, err := fmt.Fprintln(e.stdout, t.String())
		return err
	})
}

// publish sends the policy of a group, which it reads from in, and the roots that the engine does not have.
func publish(ctx context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("publish", flag.ContinueOnError), args, e, "ADMIN", "GROUP")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(e.stdin, maxRequest))
	if err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	var req pb.InstallPolicyRequest
	if err := proto.Unmarshal(text, &req); err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	return as(words[0], engine.Admin, func(nc *nats.Conn) error {
		for i, root := range req.GetRoots() {
			if err := putOnce(ctx, nc, streams.BundleStream, streams.TUF("root", strconv.Itoa(i+1)), root); err != nil {
				return fmt.Errorf("send root %d: %w", i+1, err)
			}
		}
		seq, err := putPolicy(ctx, nc, words[1], &req)
		if err != nil {
			return fmt.Errorf("send the policy: %w", err)
		}
		return json.NewEncoder(e.stdout).Encode(map[string]uint64{"sequence": seq})
	})
}

// putOnce stores content that never changes on a subject.
func putOnce(ctx context.Context, nc *nats.Conn, in, subject string, content []byte) error {
	stored, err := streams.Last(ctx, nc, in, subject)
	switch {
	case err == nil && string(stored.Data) == string(content):
		return nil
	case err == nil:
		return fmt.Errorf("the engine has another content as %s", subject)
	case !errors.Is(err, streams.ErrNone):
		return err
	}
	none := uint64(0)
	_, err = streams.Put(ctx, nc, &nats.Msg{Subject: subject, Data: content}, &none)
	return err
}

// putPolicy stores a policy without its roots: in the message itself, or beside it if it is large.
func putPolicy(ctx context.Context, nc *nats.Conn, group string, req *pb.InstallPolicyRequest) (uint64, error) {
	root := strconv.Itoa(len(req.GetRoots()))
	req.Roots = nil
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: streams.Policy(group), Header: nats.Header{streams.Root: {root}}, Data: text}
	if len(text) > maxInline {
		sum := sha256.Sum256(text)
		name := hex.EncodeToString(sum[:])
		if err := putOnce(ctx, nc, streams.BundleStream, streams.Bundle(name), text); err != nil {
			return 0, err
		}
		msg.Header.Set(streams.Fetch, name)
		msg.Data = nil
	}
	return streams.Put(ctx, nc, msg, nil)
}

// device is a line of devices.
type device struct {
	Device string          `json:"device"`
	Group  string          `json:"group"`
	Role   string          `json:"role"`
	Seen   json.RawMessage `json:"seen"`
	Sent   uint64          `json:"sent"`

	Messages uint64 `json:"messages"` // of records, on the engine

	Revoked bool `json:"revoked"`
}

// devices lists the devices, and what each says of itself.
func devices(ctx context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("devices", flag.ContinueOnError), args, e, "ADMIN")
	if err != nil {
		return err
	}
	return as(words[0], engine.Admin, func(nc *nats.Conn) error {
		all, err := engine.Devices(ctx, nc)
		if err != nil {
			return fmt.Errorf("list the devices: %w", err)
		}
		slices.SortFunc(all, func(a, b engine.Grant) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Device, b.Device))
		})
		use, err := engine.Recorded(ctx, nc)
		if err != nil {
			return fmt.Errorf("look at the record: %w", err)
		}
		if use.Max > 0 && use.Bytes > use.Max/5*4 {
			e.log.Warn("the record has nearly all of its room on the engine", "bytes", use.Bytes, "max_bytes", use.Max)
		}
		lines := json.NewEncoder(e.stdout)
		for _, g := range all {
			d, err := describe(ctx, nc, g)
			if err != nil {
				return fmt.Errorf("device %s: %w", g.Device, err)
			}
			d.Messages = use.Messages[g.Device]
			if err := lines.Encode(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// describe returns what the engine holds of a device.
func describe(ctx context.Context, nc *nats.Conn, g engine.Grant) (device, error) {
	d := device{Device: g.Device, Group: g.Group, Role: g.Role, Revoked: g.Revoked, Seen: json.RawMessage("{}")}
	stored, err := streams.Last(ctx, nc, streams.SeenStream, streams.Seen(g.Device))
	if errors.Is(err, streams.ErrNone) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	seen, err := fleet.ParseSeen(stored.Data)
	if err != nil {
		return d, nil // what a device says of itself may be anything
	}
	d.Seen = stored.Data
	last, err := streams.Last(ctx, nc, streams.AuditStream, streams.Audit(g.Device, seen.Log))
	if errors.Is(err, streams.ErrNone) {
		return d, nil
	}
	if err == nil {
		var end record.Chain
		end, err = stream.Last(last.Data)
		d.Sent = end.Seq
	}
	return d, err
}

// revoke ends what a device may do.
func revoke(ctx context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("revoke", flag.ContinueOnError), args, e, "ADMIN", "DEVICE")
	if err != nil {
		return err
	}
	if err := fleet.CheckDevice(words[1]); err != nil {
		return err
	}
	return engine.Revoke(ctx, words[0], words[1])
}

// pull copies the records of all devices.
func pull(ctx context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("pull", flag.ContinueOnError), args, e, "ADMIN", "LOGS")
	if err != nil {
		return err
	}
	return as(words[0], engine.Reader, func(nc *nats.Conn) error {
		report, err := logs.Pull(ctx, nc, words[1])
		return errors.Join(err, show(e.stdout, report, "copied"))
	})
}

// verify verifies what pull has copied.
func verify(_ context.Context, args []string, e env) error {
	words, err := parse(flag.NewFlagSet("verify", flag.ContinueOnError), args, e, "LOGS")
	if err != nil {
		return err
	}
	report, err := logs.Verify(filepath.Clean(words[0]))
	if err != nil {
		return err
	}
	return show(e.stdout, report, "verified")
}

// show prints what was found. A fault is an error.
func show(out io.Writer, report logs.Report, done string) error {
	var faults error
	for _, f := range report.Found {
		faults = errors.Join(faults, fmt.Errorf("%s: %s: %w", f.Log, f.Fault.Kind, f.Fault))
	}
	_, err := fmt.Fprintf(out, "%s %d records of %d logs; faults: %d\n", done, report.Records, report.Logs, len(report.Found))
	if faults != nil {
		return &faultError{faults}
	}
	return err
}

// faultError is the error of records that are not as they were written.
type faultError struct{ error }

func (e *faultError) Unwrap() error { return e.error }
