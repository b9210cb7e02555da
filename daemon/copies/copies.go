// Package copies keeps copies of the files that approved calls of an agent's own tools destroy,
// and brings them back when a person says so.
package copies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/undo"
)

// Options are the dependencies and settings of a Store.
type Options struct {
	Dir      string // where the copies are
	Limits   undo.Limits
	Recorder gate.Recorder
	Logger   *slog.Logger
}

// Store has the copies. It is safe for concurrent use.
type Store struct {
	o         Options
	undo      *undo.Store
	restoring sync.Mutex // held while files are brought back
}

// Open opens the store and removes what a daemon that died has left unfinished. Close must be
// called.
func Open(o Options) (*Store, error) {
	store, err := undo.Open(o.Dir, o.Limits)
	if err != nil {
		return nil, fmt.Errorf("open the copies of destroyed files; make %s a folder of your own with mode 0700, or remove it: %w", o.Dir, err)
	}
	return &Store{o: o, undo: store}, nil
}

// Close closes the store.
func (s *Store) Close() { s.undo.Close() }

// expireEvery is how often old copies are removed. They are also removed when a new one needs
// their place.
const expireEvery = time.Hour

// Run removes copies that are too old, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		if err := s.undo.Expire(); err != nil {
			s.o.Logger.Warn("remove old copies of destroyed files", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

var errUnknown = errors.New("the files are too many, or not known")

// Check implements gate.Copies.
func (s *Store) Check(ctx context.Context, loss *gate.Loss) (gate.Copied, error) {
	if len(loss.Names) == 0 {
		return gate.Copied{}, errUnknown
	}
	c, err := s.undo.Check(ctx, loss.Root, loss.Names...)
	return gate.Copied{Files: c.Files + c.Links, Left: leftOut(c.Left)}, err
}

// Keep implements gate.Copies.
func (s *Store) Keep(ctx context.Context, id string, loss *gate.Loss, whole bool) error {
	info, err := s.undo.Snapshot(ctx, id, loss.Root, loss.Names...)
	if err == nil && whole && len(info.Left) > 0 {
		err = errors.Join(errors.New(leftOut(info.Left[:1])[0]), s.undo.Remove(info.ID))
	}
	return err
}

func leftOut(left []undo.Left) []string {
	var texts []string
	for _, l := range left {
		texts = append(texts, fmt.Sprintf("%s (%s)", l.Name, l.Why))
	}
	return texts
}

// List returns the copies, newest first. The Label of each is what a person calls it by.
func (s *Store) List() ([]undo.Info, error) { return s.undo.List() }

// find returns the newest copy with a label, or the one with an id of the undo store.
func (s *Store) find(id string) (undo.Info, error) {
	all, err := s.undo.List()
	if err != nil {
		return undo.Info{}, err
	}
	for _, info := range all {
		if info.Label == id || info.ID == id {
			return info, nil
		}
	}
	return undo.Info{}, fmt.Errorf("there is no copy %s; it may have expired: %w", id, gate.ErrNotFound)
}

// Plan says what bringing back a copy would do now.
func (s *Store) Plan(ctx context.Context, id string) (*undo.Plan, error) {
	info, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return s.undo.Plan(ctx, info.ID)
}

// By says who brings files back.
type By struct {
	Decider string // as the kernel showed it
	Surface string // where, as the caller reported it
	Level   gate.Level
}

// Restore brings back the files of a copy, as the plan with a digest says. It fails if the files
// have changed since, and then does nothing; so it does if it can't be recorded.
func (s *Store) Restore(ctx context.Context, id, digest string, by By) (*undo.Result, error) {
	s.restoring.Lock()
	defer s.restoring.Unlock()
	plan, err := s.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	if digest == "" || plan.Digest != digest {
		return nil, undo.ErrChanged
	}
	if err := s.record(ctx, plan, "restore", describe(plan), by); err != nil {
		return nil, fmt.Errorf("nothing was brought back, since it could not be recorded: %w", err)
	}
	ctx = context.WithoutCancel(ctx) // half of it would be worse than none
	result, err := s.undo.Restore(ctx, plan.ID, digest)
	why := ""
	if err != nil {
		why = err.Error()
	} else if n := len(result.Failed); n > 0 {
		why = fmt.Sprintf("%d files could not be brought back: %s: %s", n, result.Failed[0].Name, result.Failed[0].Why)
	}
	if why != "" {
		if err := s.record(ctx, plan, "failed", why, by); err != nil {
			s.o.Logger.Error("record that files could not be brought back", "copy", plan.Label, "err", err)
		}
	}
	return result, err
}

// describe says for the record what a plan does, with the first names.
func describe(p *undo.Plan) string {
	const most = 5
	names := append(append([]string(nil), p.Write...), p.Replace...)
	text := fmt.Sprintf("in %s: %d missing, %d changed and kept beside, %d the same", p.Root, len(p.Write), len(p.Replace), p.Same)
	if len(names) > 0 {
		text += "; " + strings.Join(names[:min(most, len(names))], ", ")
	}
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (s *Store) record(ctx context.Context, p *undo.Plan, verdict, reason string, by By) error {
	r := &record.Record{
		Kind: record.KindUndo, Verdict: verdict, Reason: reason, Digest: p.Info.Digest,
		Decider: by.Decider, Surface: by.Surface, Level: string(by.Level), Peer: gate.PeerOf(ctx, by.Decider),
	}
	if strings.HasPrefix(p.Label, "A-") {
		r.Approval = p.Label
	} else {
		r.ID = p.Label
	}
	return s.o.Recorder.Record(ctx, r, nil, nil)
}
