package relay

// Extensions may want to see what a call comes to. The verdict on the call says so,
// and then its result is judged before the agent gets it, together with the call
// that it came of. A call that goes on as a task gives its result to whoever asks
// for it later: that is judged as the call's.

const (
	// maxTasks and maxTaskBytes bound the calls that are kept because they go on
	// as tasks. When there are more the result of a task that is not known any more
	// does not pass.
	maxTasks     = 1024
	maxTaskBytes = 16 << 20
)

// origin is the call that a result came of.
type origin struct {
	seq      uint64
	sentLine []byte // as it was written
}

// tasks knows which task is which call, of those whose results extensions want.
type tasks struct {
	by    map[string]*origin // nil: two calls have named one task, and nobody can tell
	order []string           // the ids, oldest first
	bytes int
	lost  bool // not all are known any more
}

func (t *tasks) add(id string, call *origin) {
	if other, ok := t.by[id]; ok {
		if other != nil && other.seq != call.seq { // a server that gives an id twice can't be followed
			t.by[id] = nil
			t.bytes -= len(other.sentLine)
		}
		return
	}
	t.by[id] = call
	t.order = append(t.order, id)
	t.bytes += len(call.sentLine)
	for len(t.order) > maxTasks || t.bytes > maxTaskBytes {
		if old := t.by[t.order[0]]; old != nil {
			t.bytes -= len(old.sentLine)
		}
		delete(t.by, t.order[0])
		t.order = t.order[1:]
		t.lost = true
	}
}

// of returns the call that goes on as the task. It is nil when extensions do not
// want its result; known is false when nobody can tell.
func (t *tasks) of(id string) (call *origin, known bool) {
	if call, ok := t.by[id]; ok {
		return call, call != nil
	}
	return nil, !t.lost
}

// events lead to t.
func (t *tasks) events() []event {
	var all []event
	for _, id := range t.order {
		if call := t.by[id]; call != nil {
			all = append(all, &became{task: id, call: *call})
		} else { // two different calls make it so again
			all = append(all, &became{task: id, call: origin{seq: 1}}, &became{task: id, call: origin{seq: 2}})
		}
	}
	return append(all, &became{lost: t.lost})
}
