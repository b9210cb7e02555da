package protect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
)

// look checks the files of one protection, unless they are unchanged, and repairs what has drifted
// if the person agreed to that.
func (g *Guard) look(id string) {
	g.work.Lock()
	defer g.work.Unlock()
	k := g.of(id)
	if k == nil {
		return
	}
	if k.Ending {
		if _, err := g.end(g.ctx, k, ""); err != nil {
			g.storeCheckResult(k, "", k.Decay, err.Error())
		}
		return
	}
	if k.Protection.Busy() {
		return
	}
	now := agentconf.Stamp(append(k.Protection.Watched(g.Lookup), k.Protection.Line.Shim))
	if now == k.seen {
		return
	}
	drift, problem, again := g.check(k)
	if again {
		now = ""
	}
	g.storeCheckResult(k, now, drift, problem)
}

// storeCheckResult stores the result of a check and reports a new problem: in the record if servers may run
// ungoverned, and always in the log.
func (g *Guard) storeCheckResult(k *kept, seen string, drift agentconf.Decay, problem string) {
	g.mu.Lock()
	news := problem != "" && problem != k.Problem
	k.seen, k.Decay, k.Problem, k.Checked = seen, drift, problem, time.Now()
	g.mu.Unlock()
	if !news {
		return
	}
	g.Logger.Warn("a protection has changed", "agent", k.Protection.Agent, "problem", problem)
	if drift.None() {
		return
	}
	if err := g.note(g.ctx, k.Protection, "drifted", "", problem); err != nil {
		g.Logger.Error("record the drift of a protection", "agent", k.Protection.Agent, "err", err)
	}
}

// check determines what has drifted, and repairs it if it may. again reports that the files must be
// checked again soon.
func (g *Guard) check(k *kept) (drift agentconf.Decay, problem string, again bool) {
	plan, err := g.plan(k)
	var locked *agentconf.LockedError
	switch {
	case errors.As(err, &locked): // a wrap also has lines in the file, and reports what it sees
		return k.Decay, k.Problem, true
	case err != nil:
		return k.Decay, err.Error(), true
	}
	drift = plan.Decay()
	if info, err := os.Stat(k.Protection.Line.Shim); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return drift, fmt.Sprintf("the program %s no longer exists: the agent can't start its servers", k.Protection.Line.Shim), true
	}
	if k.Protection.Line.Socket != g.Socket {
		return drift, fmt.Sprintf("its tg-shim entries use the socket %s, but this daemon listens on %s", k.Protection.Line.Socket, g.Socket), true
	}
	if drift.None() {
		return drift, "", false
	}
	lost := describe(drift)
	switch {
	case !k.Protection.Repair:
		return drift, lost, false
	case !g.mayRepair(k):
		return drift, fmt.Sprintf("%s; it was repaired %d times within %d minutes and undone each time, so it is left as it is for now",
			lost, mostRepairs, int(repairSpan.Minutes())), true
	}
	switch err := g.repair(k, plan, lost); {
	case errors.As(err, &locked):
		return drift, fmt.Sprintf("%s; not repaired yet: %v", lost, err), true
	case err != nil:
		return drift, fmt.Sprintf("%s; the repair failed: %v", lost, err), true
	}
	return agentconf.Decay{}, "", true // check again: the file may have been changed meanwhile
}

// plan returns the rewrite as it should be.
func (g *Guard) plan(k *kept) (*agentconf.Plan, error) {
	var all []*agentconf.Protection
	for _, state := range g.List() {
		all = append(all, state.Protection)
	}
	return k.Protection.Plan(k.Protection.Line, g.Lookup, all)
}

// describe describes a drift for people.
func describe(d agentconf.Decay) string {
	var parts []string
	if len(d.Lost) > 0 {
		parts = append(parts, "the tg-shim entries of "+strings.Join(d.Lost, ", ")+" were removed")
	}
	if len(d.Added) > 0 {
		parts = append(parts, strings.Join(d.Added, ", ")+" was added and is not governed")
	}
	if d.Tools {
		parts = append(parts, "the hooks of tg-shim were removed or changed, and the agent's own tools are not governed")
	}
	if d.Other {
		parts = append(parts, "an entry was changed")
	}
	return strings.Join(parts, "; ")
}

// mayRepair reports whether the recent repairs are below the limit.
func (g *Guard) mayRepair(k *kept) bool {
	k.repairs = slices.DeleteFunc(k.repairs, func(at time.Time) bool { return time.Since(at) >= repairSpan })
	return len(k.repairs) < mostRepairs
}

// repair makes the rewrite again, and records that servers may have run ungoverned.
func (g *Guard) repair(k *kept, plan *agentconf.Plan, lost string) error {
	tried := false
	_, err := plan.Protect(k.Protection, func(next *agentconf.Protection) error {
		tried = true
		return g.put(g.ctx, next, k.Since)
	})
	if !tried { // impossible, or done by a concurrent protect or repair
		return err
	}
	g.mu.Lock()
	k.repairs = append(k.repairs, time.Now())
	if err == nil {
		k.Repairs++
	}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	g.Logger.Warn("repaired the tg-shim entries of a protected agent", "agent", k.Protection.Agent, "reason", lost)
	if err := g.note(g.ctx, k.Protection, "repaired", "", lost+"; until now its servers may have been started ungoverned"); err != nil {
		g.Logger.Error("record a repair", "agent", k.Protection.Agent, "err", err)
	}
	return nil
}

// End restores the files of a protection and deletes it. If a wrap holds one of the files, the
// error is gate.ErrLocked and nothing has changed. If the restore can't be completed, it is
// retried, also by the next daemon.
func (g *Guard) End(ctx context.Context, who, id string) ([]agentconf.Report, error) {
	g.work.Lock()
	defer g.work.Unlock()
	k := g.of(id)
	if k == nil {
		return nil, fmt.Errorf("unprotect: no protection %s: %w", id, gate.ErrNotFound)
	}
	if err := g.markEnding(ctx, k, true); err != nil {
		return nil, err
	}
	reports, err := g.end(ctx, k, who)
	var locked *agentconf.LockedError
	if errors.As(err, &locked) {
		return nil, errors.Join(fmt.Errorf("unprotect: %w: %w", gate.ErrLocked, err), g.markEnding(ctx, k, false))
	}
	return reports, err
}

func (g *Guard) markEnding(ctx context.Context, k *kept, ending bool) error {
	text, err := k.Protection.Text()
	if err != nil {
		return err
	}
	err = g.Store.PutProtection(ctx, &store.Protection{ID: k.Protection.ID, Agent: k.Protection.Agent, Since: k.Since, Ending: ending, Text: text})
	if err != nil {
		return fmt.Errorf("unprotect: %w", err)
	}
	g.mu.Lock()
	k.Ending, k.seen = ending, ""
	g.mu.Unlock()
	return nil
}

// end restores the files. g.work must be held.
func (g *Guard) end(ctx context.Context, k *kept, who string) ([]agentconf.Report, error) {
	reports, err := k.Protection.Restore()
	if err != nil {
		return reports, err
	}
	if err := g.Store.DeleteProtection(ctx, k.Protection.ID); err != nil {
		return reports, err
	}
	g.mu.Lock()
	delete(g.kept, k.Protection.ID)
	g.files = nil
	g.mu.Unlock()
	var said []string
	for _, r := range reports {
		said = append(said, fmt.Sprintf("%s: %s", r.Path, r.State))
	}
	if err := g.note(ctx, k.Protection, "unprotected", who, strings.Join(said, "; ")); err != nil {
		g.Logger.Error("record the end of a protection", "agent", k.Protection.Agent, "err", err)
	}
	return reports, nil
}
