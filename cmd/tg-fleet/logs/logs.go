// Package logs copies the records of all machines of a fleet from the engine into folders, and verifies
// what it has copied. A copy is evidence: it holds what came, byte for byte and in that order, also what
// is wrong with it.
package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	// recordsFile has the records of one log of one machine.
	recordsFile = "records.jsonl"
	// cursorFile says up to which message of the stream all was copied.
	cursorFile = "copied.json"
	// saveEvery is after how many messages the cursor is written.
	saveEvery = 1000
	// auditPrefix begins the subjects of the stream; see [streams.Audit].
	auditPrefix = "tg.audit."
)

// cursor says how far a copy has come. What a file has beyond its size was written by a copy that did not
// end, and comes again.
type cursor struct {
	Seq   uint64           `json:"seq"`   // of the stream
	Sizes map[string]int64 `json:"sizes"` // in bytes, by log
}

// Found is something wrong with a log.
type Found struct {
	Log   string // DEVICE/LOG
	Fault *stream.Fault
}

// Report says what was copied or verified.
type Report struct {
	Logs    int
	Records uint64
	Found   []Found
}

// copying is one copy into a folder.
type copying struct {
	root   string
	cursor cursor
	open   map[string]*log
	report Report
}

// log is one log that a copy appends to.
type log struct {
	file  *os.File
	check *stream.Check
}

// Pull copies what is new on the engine into the folder root, which it makes if it is not there.
func Pull(ctx context.Context, nc *nats.Conn, root string) (Report, error) {
	c := &copying{root: root, open: map[string]*log{}}
	if err := c.begin(); err != nil {
		return c.report, fmt.Errorf("copy records: %w", err)
	}
	err := c.pull(ctx, nc)
	if err == nil {
		err = c.save()
	}
	for _, l := range c.open {
		err = errors.Join(err, l.file.Close())
	}
	c.report.Logs = len(c.open)
	if err != nil {
		return c.report, fmt.Errorf("copy records: %w", err)
	}
	return c.report, nil
}

// begin reads the cursor and cuts off what a copy that did not end has left.
func (c *copying) begin() error {
	if err := os.MkdirAll(c.root, 0o700); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(c.root, cursorFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.cursor.Sizes = map[string]int64{}
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, &c.cursor); err != nil {
			return fmt.Errorf("read how far the last copy came: %w", err)
		}
	}
	all, err := files(c.root)
	if err != nil {
		return err
	}
	for _, name := range all {
		if err := os.Truncate(c.path(name), c.cursor.Sizes[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) path(name string) string {
	return filepath.Join(c.root, filepath.FromSlash(name), recordsFile)
}

// files returns the logs below root, as DEVICE/LOG.
func files(root string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, "*", "*", recordsFile))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range paths {
		name, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		all = append(all, filepath.ToSlash(name))
	}
	slices.Sort(all)
	return all, nil
}

// pull copies the messages that the stream holds now.
func (c *copying) pull(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var last uint64
	err = streams.Retry(ctx, streams.Patience, streams.OneTry, func(ctx context.Context) error {
		s, err := js.Stream(ctx, streams.AuditStream)
		if err == nil {
			last = s.CachedInfo().State.LastSeq
		}
		return err
	})
	if err != nil {
		return err
	}
	if last < c.cursor.Seq {
		return fmt.Errorf("the engine holds less than was copied: message %d is its last, and %d was copied; it was restored from an older copy, and what it gets again is compared if you copy into a new folder", last, c.cursor.Seq)
	}
	n := 0
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: c.cursor.Seq + 1}
	err = streams.Read(ctx, nc, streams.AuditStream, config, func(msg jetstream.Msg) error {
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if err := c.take(msg.Subject(), msg.Data()); err != nil {
			return err
		}
		c.cursor.Seq = meta.Sequence.Stream
		if n++; n%saveEvery == 0 {
			return c.save()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("after message %d: %w", c.cursor.Seq, err)
	}
	return nil
}

// take copies one batch.
func (c *copying) take(subject string, packed []byte) error {
	device, id, ok := strings.Cut(strings.TrimPrefix(subject, auditPrefix), ".")
	if !ok || fleet.CheckDevice(device) != nil || fleet.CheckID(id) != nil {
		return fmt.Errorf("its subject is %.80q", subject)
	}
	name := device + "/" + id
	l, err := c.log(name, id)
	if err != nil {
		return err
	}
	var text []byte
	err = stream.Unpack(packed, func(e record.Entry) error {
		text = append(append(text, e.Line...), '\n')
		if e.Values != nil {
			text = append(append(text, e.Values...), '\n')
		}
		c.add(name, l.check, e)
		return nil
	})
	if err != nil {
		c.report.Found = append(c.report.Found, Found{name, &stream.Fault{Kind: stream.Damaged, What: "a batch can't be read: " + err.Error()}})
	}
	n, err := l.file.Write(text)
	c.cursor.Sizes[name] += int64(n)
	return err
}

// add checks one record of a log.
func (c *copying) add(name string, check *stream.Check, e record.Entry) {
	c.report.Records++
	if fault := check.Add(e); fault != nil {
		c.report.Found = append(c.report.Found, Found{name, fault})
	}
}

// log returns a log to append to. What was copied before is read again, so that what comes is compared with it.
func (c *copying) log(name, id string) (*log, error) {
	if l := c.open[name]; l != nil {
		return l, nil
	}
	path := c.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &log{file: f, check: stream.NewCheck(id)}
	if err := each(f, func(e record.Entry) { l.check.Add(e) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.open[name] = l
	return l, nil
}

// each calls see for each record of a file.
func each(f *os.File, see func(record.Entry)) error {
	for r := record.NewReader(f, 0); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		see(e)
	}
}

// save has all that was copied on the disk, and then the cursor.
func (c *copying) save() error {
	for _, l := range c.open {
		if err := l.file.Sync(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(c.cursor)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(c.root, ".copied-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.root, cursorFile))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Verify verifies what Pull has copied into the folder root, without the engine.
func Verify(root string) (Report, error) {
	all, err := files(root)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no copied records", root)
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify records: %w", err)
	}
	c := &copying{root: root, report: Report{Logs: len(all)}}
	for _, name := range all {
		f, err := os.Open(c.path(name))
		if err != nil {
			return c.report, fmt.Errorf("verify records: %w", err)
		}
		_, id, _ := strings.Cut(name, "/")
		check := stream.NewCheck(id)
		err = errors.Join(each(f, func(e record.Entry) { c.add(name, check, e) }), f.Close())
		if err != nil {
			c.report.Found = append(c.report.Found, Found{name, &stream.Fault{Kind: stream.Damaged, What: err.Error()}})
		}
	}
	return c.report, nil
}
