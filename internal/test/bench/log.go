package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The long log is written in batches of calls. Each batch calls the tool rare a few times.
const (
	batch     = 10_000
	rare      = "rare"
	rareCalls = 5
	newest    = 100 // number of its records that are queried
)

// measureLog writes a long log by making calls, then searches it, verifies it, and starts a
// daemon with it.
func measureLog(h *fixture, r *report, o options) error {
	began := time.Now()
	halfway, records, err := h.write(uint64(o.records))
	if err != nil {
		return err
	}
	rate := float64(records) / time.Since(began).Seconds()
	r.add("log.write", row{Ours: once(rate), Note: fmt.Sprintf("%d of them", records)})
	looked, err := h.lookUp(halfway, o.turns)
	if err != nil {
		return err
	}
	r.add("log.lookup", row{Ours: looked, Note: "of the older half of the log"})
	var rates []float64
	for range 3 {
		began := time.Now()
		verify := exec.Command(filepath.Join(h.bin, "tgctl"), "audit", "verify")
		verify.Env = h.env
		if out, err := verify.CombinedOutput(); err != nil {
			return fmt.Errorf("verify: %w: %s", err, out)
		}
		rates = append(rates, float64(records)/time.Since(began).Seconds())
	}
	r.add("log.verify", row{Ours: over(rates), Note: "tgctl's own start included"})
	starts, err := h.restarts(5)
	if err != nil {
		return err
	}
	r.add("log.start", row{Ours: starts})
	return nil
}

// write makes calls until the log has that many records. halfway is the time at which it had
// half of them.
func (h *fixture) write(enough uint64) (halfway time.Time, records uint64, err error) {
	s, err := h.ways()[ours].start()
	if err != nil {
		return halfway, 0, err
	}
	for records < enough && err == nil {
		if _, err = s.pipeline("tools/call", "read", batch, 256); err == nil {
			_, err = s.pipeline("tools/call", rare, rareCalls, 1)
		}
		before := records
		if err == nil {
			records, err = h.records()
		}
		if err == nil && records == before {
			err = fmt.Errorf("after %d records, calls are not recorded any more", records)
		}
		if halfway.IsZero() && records >= enough/2 {
			halfway = time.Now()
		}
	}
	if cerr := s.close(); err == nil {
		err = cerr
	}
	return halfway, records, err
}

// lookUp queries the newest calls of the rare tool in the hour before until, which are older
// than half of the log, and returns how long that takes in ms.
func (h *fixture) lookUp(until time.Time, turns int) (*spread, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(h.control()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all []float64
	for range turns {
		asked := time.Now()
		q := &pb.AuditQuery{Tool: rare, Since: timestamppb.New(until.Add(-time.Hour)), Until: timestamppb.New(until), Last: newest}
		n := 0
		for record, err := range c.ReadAudit(ctx, q) {
			if err != nil {
				return nil, err
			}
			if err := isRare(record.GetLine(), until); err != nil {
				return nil, err
			}
			n++
		}
		all = append(all, millis(time.Since(asked)))
		if n == 0 {
			return nil, fmt.Errorf("no record of the tool %q was found", rare)
		}
	}
	return over(all), nil
}

// isRare checks that a record matches the query.
func isRare(line []byte, until time.Time) error {
	var record struct {
		Tool string
		Time time.Time
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return fmt.Errorf("read a record: %w", err)
	}
	if record.Tool != rare || record.Time.After(until) {
		return fmt.Errorf("asked for %q until %v, found %s", rare, until, line)
	}
	return nil
}

// records returns the number of records in the log.
func (h *fixture) records() (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(h.control()))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	return s.GetAuditSeq(), err
}
