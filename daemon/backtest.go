package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// tellEvery is after how many records the progress of a backtest is told.
const tellEvery = 10_000

// Candidate implements api.Stages.
func (s *stages) Candidate(path string) (api.Candidate, api.PolicySet, []config.Diagnostic, error) {
	if s.log == nil {
		return nil, api.PolicySet{}, nil, fmt.Errorf("a backtest reads the record, which the daemon has: %w", gate.ErrNotRunning)
	}
	l, _, problems := s.load(path)
	if l.set == nil {
		return nil, api.PolicySet{}, problems, nil
	}
	return &candidate{s.log, l.set.Partly()}, describe(l), problems, nil
}

// candidate is a set that is tried on the record.
type candidate struct {
	log *audit.Log
	set *policy.Partly
}

// Backtest implements api.Candidate.
func (c *candidate) Backtest(ctx context.Context, since, until time.Time, progress func(records uint64) error) (*rehearse.Backtest, error) {
	commands := map[string][]string{}
	if c.set.NeedsCommand() {
		err := c.log.Read(ctx, audit.Query{Kind: record.KindAttach, Until: until}, func(_ uint64, line, _ []byte) error {
			if r, err := record.Parse(line); err == nil {
				commands[r.Attachment] = rehearse.CommandOf(&r)
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	b := rehearse.NewBacktest(c.set)
	var read uint64
	q := audit.Query{Kind: record.KindCall, Since: since, Until: until}
	err := c.log.Read(ctx, q, func(_ uint64, line, values []byte) error {
		read++
		if read%tellEvery == 0 {
			if err := progress(read); err != nil {
				return err
			}
		}
		r, ok := rehearse.Parse(line)
		if !ok {
			b.Damaged()
			return ctx.Err()
		}
		if !r.Whole && values != nil {
			r.Values, r.Whole, r.Params = c.log.Kept(values)
		}
		r.Command = commands[r.Attachment]
		b.Add(ctx, r)
		return ctx.Err()
	})
	return b, err
}
