package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// rare is a tool that is called rareCalls times among all the others.
const (
	rare      = "rare"
	rareCalls = 100
)

// measureLog writes a long log by calling, then looks something up in it, verifies
// it, and starts a daemon with it.
func measureLog(h *house, r *report, o options) error {
	p, err := startPeer(h.ways()[2], h.env)
	if err != nil {
		return err
	}
	began := time.Now()
	var records uint64
	for records < uint64(o.records) {
		if err := pipeline(p, 10_000, 256); err != nil {
			return err
		}
		for range rareCalls / 20 {
			if err := p.call("tools/call", rare); err != nil {
				return err
			}
		}
		if records, err = h.records(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	if err := p.close(); err != nil {
		return err
	}
	many := fmt.Sprintf("log of %d records", records)
	r.add(row{What: many + ": written by calls", Unit: "1/s", Ours: float64(records) / took.Seconds(), Note: "records"})
	if err := h.lookUp(r, many, o.turns); err != nil {
		return err
	}

	began = time.Now()
	verify := exec.Command(filepath.Join(h.bin, "tgctl"), "audit", "verify")
	verify.Env = h.env
	if out, err := verify.CombinedOutput(); err != nil {
		return fmt.Errorf("verify: %w: %s", err, out)
	}
	rate := float64(records) / time.Since(began).Seconds()
	r.add(row{What: many + ": verified", Unit: "1/s", Ours: rate, Note: "start of tgctl included"}.reach("≥ 300,000", rate >= 300_000))

	var starts []time.Duration
	for range 5 {
		if err := h.stop(); err != nil {
			return err
		}
		took, err := h.start()
		if err != nil {
			return err
		}
		starts = append(starts, took)
	}
	start := median(starts)
	r.add(row{What: many + ": daemon start to first answer", Unit: "ms", Ours: millis(start)}.reach("< 150", start < 150*time.Millisecond))
	return nil
}

// lookUp asks for the calls of one tool in one hour, which the index has by then.
func (h *house) lookUp(r *report, many string, turns int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(h.control()))
	if err != nil {
		return err
	}
	defer c.Close()
	var all []time.Duration
	for range turns {
		began := time.Now()
		q := &pb.AuditQuery{Tool: rare, Since: timestamppb.New(began.Add(-time.Hour)), Until: timestamppb.New(began), Last: rareCalls}
		found := 0
		for _, err := range c.ReadAudit(ctx, q) {
			if err != nil {
				return err
			}
			found++
		}
		if found == 0 {
			return fmt.Errorf("no record of the tool %q was found", rare)
		}
		all = append(all, time.Since(began))
	}
	took := median(all)
	r.add(row{What: many + ": one tool in one hour", Unit: "ms", Ours: millis(took)}.reach("< 100", took < 100*time.Millisecond))
	return nil
}

// records is how many the log has.
func (h *house) records() (uint64, error) {
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
