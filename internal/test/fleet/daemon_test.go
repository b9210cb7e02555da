package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// logID is the id of the log of every daemon here.
const logID = "0123456789abcdef"

// daemon writes a log in the format of the real one, and has a courier that sends it. All
// that it knows is on disk, so that it can be killed.
type daemon struct {
	dir     string // has the identity and the log
	records int    // to be written in all
	over    time.Duration
}

func (d *daemon) segment() string  { return filepath.Join(d.dir, record.SegmentName(1)) }
func (d *daemon) identity() string { return filepath.Join(d.dir, "courier.json") }

// run writes what is left to be written, and sends until ctx ends.
func (d *daemon) run(ctx context.Context, failed func(error)) error {
	id, err := courier.ReadIdentity(d.identity())
	if err != nil {
		return err
	}
	link, err := connect(ctx, id)
	if err != nil {
		return err
	}
	defer link.Close()
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		if err := d.write(ctx); err != nil {
			failed(err)
		}
	})
	link.Serve(ctx, func(ctx context.Context) {
		u := courier.Uploader{Conn: link.Conn, Device: link.Device, Log: logID, Read: d.read}
		if err := u.Run(ctx); err != nil {
			failed(err)
		}
	})
	return nil
}

// connect connects until it has; whoever waits for it here does not wait for as long as a
// fleet of ten thousand does.
func connect(ctx context.Context, id *courier.Identity) (*courier.Link, error) {
	soon := func(servers []nats.Server, _ nats.ServerInfo) (*nats.Server, time.Duration) {
		return &servers[rand.N(len(servers))], rand.N(time.Second)
	}
	for {
		link, err := id.Connect(nats.ReconnectToServer(soon), nats.Timeout(3*time.Second), nats.PingInterval(3*time.Second))
		if err == nil || ctx.Err() != nil {
			return link, errors.Join(err, ctx.Err())
		}
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(time.Second)):
		}
	}
}

// write writes records until there are enough, after those that are there.
func (d *daemon) write(ctx context.Context) error {
	f, err := os.OpenFile(d.segment(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	chain, end, err := endOf(f)
	if err != nil {
		return err
	}
	if err := f.Truncate(end); err != nil { // the last line may be torn
		return err
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return err
	}
	for int(chain.Seq) < d.records {
		count := min(1+rand.IntN(60), d.records-int(chain.Seq))
		var text []byte
		for range count {
			text, chain = chain.Append(text, newRecord(chain.Seq+1), nil)
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.over * time.Duration(count) / time.Duration(d.records)):
		}
	}
	return nil
}

// newRecord returns a record as a daemon writes them, of a few hundred bytes.
func newRecord(seq uint64) *record.Record {
	r := &record.Record{
		Kind: record.KindCall, Time: time.Now(), Server: "files", Method: "tools/call", Tool: "read_file",
		Verdict: record.Forward, Reason: strings.Repeat("a rule of the user's ", rand.IntN(8)),
	}
	if seq == 1 {
		r = &record.Record{Kind: record.KindLog, Time: time.Now(), Log: logID}
	}
	return r
}

// endOf returns the last record of a segment, and where it ends.
func endOf(f io.Reader) (record.Chain, int64, error) {
	var (
		chain   record.Chain
		end     int64
		entries = record.NewReader(f, 0)
	)
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, record.ErrTorn) {
			return chain, end, nil
		}
		if err != nil {
			return chain, end, err
		}
		var ok bool
		if chain, ok = record.After(e); !ok {
			return chain, end, fmt.Errorf("a record after %d is damaged", chain.Seq)
		}
		end = e.Offset + e.Size()
	}
}

// read is what the real daemon does for ReadAudit.
func (d *daemon) read(ctx context.Context, _ string, from uint64) iter.Seq2[*pb.FleetAuditRecord, error] {
	return func(yield func(*pb.FleetAuditRecord, error) bool) {
		f, err := os.Open(d.segment())
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		var rest []byte
		for {
			more, err := io.ReadAll(f)
			if err != nil {
				yield(nil, err)
				return
			}
			rest = append(rest, more...)
			for {
				line, after, ended := bytes.Cut(rest, []byte("\n"))
				if !ended {
					break
				}
				rest = after
				if seq, _, ok := record.Peek(line); !ok || seq >= from {
					if !yield(&pb.FleetAuditRecord{Log: logID, Seq: seq, Line: line}, nil) {
						return
					}
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}
