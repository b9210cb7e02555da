package approval

import (
	"context"
	"fmt"
	"iter"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// maxWatcherBacklog is the maximum number of changed questions that a watcher has not read.
const maxWatcherBacklog = 256

// watcher is notified of changes. A slow one gets only the last state of each question,
// and is dropped if even these are too many.
type watcher struct {
	order  []string // ids of unread changes, oldest first
	latest map[string]Question
	wake   chan struct{} // holds a token when there is a change
	lost   bool
}

// Watch yields every waiting question, oldest first, and then each change, in the form of
// List, until ctx ends, the daemon stops or the caller breaks. A slow caller may miss a
// state that was followed by another. The last element is an error: the cause of ctx, or
// gate.ErrTooLarge if the caller is so far behind that it must watch again.
func (q *Queue) Watch(ctx context.Context) iter.Seq2[Question, error] {
	return func(yield func(Question, error) bool) {
		w := q.watch()
		defer q.unwatch(w)
		for {
			next, ok, lost := q.next(w)
			switch {
			case lost:
				yield(Question{}, fmt.Errorf("watch questions: too far behind, watch again: %w", gate.ErrTooLarge))
				return
			case ok:
				if !yield(next, nil) {
					return
				}
				continue
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(Question{}, context.Cause(ctx))
				return
			case <-q.stop:
				yield(Question{}, errStopping)
				return
			}
		}
	}
}

func (q *Queue) watch() *watcher {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	w := &watcher{latest: map[string]Question{}, wake: make(chan struct{}, 1)}
	for _, open := range q.listOpen() {
		w.put(open)
	}
	q.watchers[w] = struct{}{}
	return w
}

func (q *Queue) unwatch(w *watcher) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.watchers, w)
}

// next takes the oldest change that w has not read.
func (q *Queue) next(w *watcher) (next Question, ok, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.lost || len(w.order) == 0 {
		return Question{}, false, w.lost
	}
	id := w.order[0]
	w.order = w.order[1:]
	next = w.latest[id]
	delete(w.latest, id)
	return next, true, false
}

// notifyWatchers notifies every watcher of a change.
func (q *Queue) notifyWatchers(e *entry) {
	changed := e.shown()
	for w := range q.watchers {
		w.put(changed)
		if len(w.order) > max(maxWatcherBacklog, 2*q.total) {
			w.lost, w.order, w.latest = true, nil, nil
			delete(q.watchers, w)
		}
	}
}

func (w *watcher) put(changed Question) {
	if _, ok := w.latest[changed.ID]; !ok {
		w.order = append(w.order, changed.ID)
	}
	w.latest[changed.ID] = changed
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
