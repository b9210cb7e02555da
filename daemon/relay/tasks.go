package relay

// Extensions may want to see the result of a call. The verdict on the call says so, and its
// result is then judged before the agent gets it, together with the call. A call that
// continues as a task returns its result to a later request: that result is judged as the
// call's.

const (
	// maxTasks and maxTaskBytes limit the calls that are kept because they continue as tasks.
	// Beyond that the oldest are forgotten, and the result of a forgotten task is not
	// forwarded.
	maxTasks     = 1024
	maxTaskBytes = 16 << 20
)

// origin is the call behind a result.
type origin struct {
	seq      uint64
	sentLine []byte // as it was written
}

// tasks maps tasks to calls whose results extensions want to see.
type tasks struct {
	by    map[string]*origin // nil: two calls named the same task, so it can't be attributed
	order []string           // task ids, oldest first
	bytes int
	lost  bool // some tasks have been forgotten
}

func (t *tasks) add(id string, call *origin) {
	if other, ok := t.by[id]; ok {
		if other != nil && other.seq != call.seq { // a server that reuses an id can't be followed
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

// of returns the call that continues as the task, or nil if extensions do not want its result.
// known is false if that can't be determined.
func (t *tasks) of(id string) (call *origin, known bool) {
	if call, ok := t.by[id]; ok {
		return call, call != nil
	}
	return nil, !t.lost
}

// events returns events that lead to t.
func (t *tasks) events() []event {
	var all []event
	for _, id := range t.order {
		if call := t.by[id]; call != nil {
			all = append(all, &became{task: id, call: *call})
		} else { // two different calls restore the nil entry
			all = append(all, &became{task: id, call: origin{seq: 1}}, &became{task: id, call: origin{seq: 2}})
		}
	}
	return append(all, &became{lost: t.lost})
}
