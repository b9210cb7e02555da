package daemon_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// backtest runs a backtest to its end.
func backtest(t *testing.T, c *client.Client, req *pb.BacktestRequest) (set *pb.PolicySet, flips []*pb.BacktestFlip, s *pb.BacktestSummary, err error) {
	t.Helper()
	for e, err := range c.Backtest(t.Context(), req) {
		if err != nil {
			return nil, nil, nil, err
		}
		if e.GetSet() != nil {
			set = e.GetSet().GetSet()
		}
		if e.GetFlip() != nil {
			flips = append(flips, e.GetFlip())
		}
		s = e.GetSummary()
	}
	return set, flips, s, nil
}

func TestBacktest(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c, a := h.control(t), h.attach(t)
	for _, tool := range []string{"read_file", "delete_file", "send_mail"} {
		a.call(tool)
	}
	set, flips, s, err := backtest(t, c, &pb.BacktestRequest{})
	if err != nil || set.GetSource() != h.config || len(flips) > 0 || s.GetCalls() != 3 || s.GetSame() != 3 {
		t.Errorf("under what is in force: %v, %v, %v, %v", set, flips, s, err)
	}
	// What is on disk counts, also if another set is in force. Commands are in other records.
	h.write(t, strings.Replace(someRules, "governance:", "sources: [{id: files, command: nothing}]\ngovernance:", 1))
	if _, flips, s, err := backtest(t, c, &pb.BacktestRequest{}); err != nil || len(flips) != 2 || s.GetTighter() != 2 || s.GetUnknown() != 0 {
		t.Errorf("tied to another command: %v, %v, %v", flips, s, err)
	}
	h.write(t, strings.Replace(someRules, "governance:", "sources: [{id: files, command: cat}]\ngovernance:", 1))
	if _, flips, s, err := backtest(t, c, &pb.BacktestRequest{}); err != nil || len(flips) != 0 || s.GetSame() != 3 {
		t.Errorf("tied to its command: %v, %v, %v", flips, s, err)
	}
	candidate := filepath.Join(t.TempDir(), "new.yaml")
	put(t, candidate, "schema: 1\ngovernance: {}\n")
	if set, flips, s, err := backtest(t, c, &pb.BacktestRequest{Config: candidate}); err != nil || set.GetSource() != candidate || s.GetLooser() != 2 || len(flips) != 2 || !flips[0].GetLoosens() {
		t.Errorf("a candidate: %v, %v, %v, %v", set, flips, s, err)
	}
	if _, _, s, err := backtest(t, c, &pb.BacktestRequest{Since: timestamppb.New(time.Now().Add(time.Hour))}); err != nil || s.GetCalls() != 0 || s.GetFirst() != nil {
		t.Errorf("of the future: %v, %v", s, err)
	}
	put(t, candidate, "schema: 3\n")
	var bad *client.Error
	if _, _, _, err := backtest(t, c, &pb.BacktestRequest{Config: candidate}); !errors.As(err, &bad) || len(bad.Diagnostics) != 1 {
		t.Errorf("a broken candidate: %v", err)
	}
	if _, _, _, err := backtest(t, alone(t, h, h.config), &pb.BacktestRequest{}); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("without a daemon: %v", err)
	}
}
