package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// adoptOrphans makes the daemon the parent of what its programs leave behind, so
// that it is found and ended with them, until the returned function is called. Where
// the system can't, what leaves its group is not found.
func adoptOrphans(log *slog.Logger) (stop func()) {
	if err := child.BecomeSubreaper(); err != nil {
		log.Debug("what a program of ours leaves behind can't be found by descent", "err", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reaping sync.WaitGroup
	reaping.Go(func() { child.ReapOrphans(ctx) })
	return func() {
		cancel()
		reaping.Wait()
	}
}
