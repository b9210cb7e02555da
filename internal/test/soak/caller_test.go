package soak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// caller is an agent with one shim. Its methods may be used by any number of
// goroutines, each of which asks and waits for the answer.
type caller struct {
	*world
	name   string
	shared bool // its server may end with the daemon, or be crashed by others
	shim   *rig.Shim

	mu    sync.Mutex // guards what follows
	last  int64
	open  map[int64]*question
	taken []int64 // ids of what was cancelled and not answered, oldest first
}

// question is a request that waits for its answer.
type question struct {
	id        int64
	name      string // of a call, that no other has
	tool      string
	pad       string
	size      int
	answer    chan []byte // one line
	cancelled bool        // guarded by the caller's mu: an answer may come or not
}

// mostTaken is how many cancelled requests a caller remembers, for answers that were
// on their way.
const mostTaken = 1024

// errEnded is a shim that ended with a question open.
var errEnded = errors.New("the shim has ended")

// join starts a shim of a server and shakes hands. before starts the shim; see
// rig.Options.
func (w *world) join(tb testing.TB, name, server string, o rig.Options) (*caller, error) {
	c := &caller{world: w, name: name, shared: server == sharedServer, open: map[int64]*question{}}
	o.Server, o.Shipped, o.Each = server, true, c.hear
	o.Command = []string{w.self, serverRole, w.fixture.Path("breaches")}
	if o.Before == nil {
		o.Before = rig.Launcher()
	}
	c.shim = w.fixture.Shim(tb, o)
	q, err := c.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}`, &question{})
	if err != nil {
		return nil, err
	}
	line, err := c.await(q)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(line, []byte(`"serverInfo"`)) {
		return nil, fmt.Errorf("the handshake is answered with %.300s", line)
	}
	return c, c.shim.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
}

// hear takes in what the agent reads.
func (c *caller) hear(line []byte) {
	id, ok := idOf(line)
	if !ok {
		if !bytes.Contains(line[:min(len(line), 300)], []byte(`"method":"notifications/`)) {
			c.Errorf("%s reads what is no answer: %.300s", c.name, line)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[id]
	if q == nil {
		c.Errorf("%s reads an answer that it has had, or never asked for: %.300s", c.name, line)
		return
	}
	delete(c.open, id)
	if q.cancelled {
		c.count("answers to what was cancelled", 1)
		return
	}
	q.answer <- bytes.Clone(line)
}

// idOf is the id of an answer. Those of servers have it in front; of others the
// order of members is their own matter.
func idOf(line []byte) (int64, bool) {
	const front = `{"jsonrpc":"2.0","id":`
	if rest, ok := bytes.CutPrefix(line, []byte(front)); ok {
		digits, _, _ := bytes.Cut(rest[:min(len(rest), 20)], []byte(","))
		if id, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
			return id, true
		}
	}
	var m struct {
		ID     *int64
		Method string
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil || m.Method != "" {
		return 0, false
	}
	return *m.ID, true
}

// send writes a request.
func (c *caller) send(method, params string, q *question) (*question, error) {
	q.answer = make(chan []byte, 1)
	c.mu.Lock()
	c.last++
	q.id = c.last
	c.open[q.id] = q
	c.mu.Unlock()
	if q.tool != "" {
		q.name = fmt.Sprintf("%s-%d", c.name, q.id)
		q.pad = filler(q.name, len(q.pad))
		params = fmt.Sprintf(`{"name":%q,"arguments":{"n":%q,"path":"/srv/notes/%d.txt","size":%d,"pad":"`, q.tool, q.name, q.id%1000, q.size) + q.pad + `"}}`
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":`, q.id, method) + params + "}\n"
	if err := c.shim.Send([]byte(line)); err != nil {
		return nil, fmt.Errorf("%s writes to its shim: %w: %s", c.name, err, c.shim.Stderr())
	}
	return q, nil
}

// call writes a call of a tool, with arguments of pad bytes and a result of size.
func (c *caller) call(tool string, pad, size int) (*question, error) {
	return c.send("tools/call", "", &question{tool: tool, pad: filler("x", pad), size: size})
}

// await waits for the answer.
func (c *caller) await(q *question) ([]byte, error) {
	late := time.NewTimer(2 * rig.Timeout)
	defer late.Stop()
	select {
	case line := <-q.answer:
		return line, nil
	case <-c.shim.Ended():
		select { // what it said last may be on its way
		case line := <-q.answer:
			return line, nil
		case <-time.After(time.Second):
		}
		return nil, fmt.Errorf("%s: %s %d: %w: %s", c.name, q.tool, q.id, errEnded, c.shim.Stderr())
	case <-late.C:
		return nil, fmt.Errorf("%s: %s %d is not answered: %s", c.name, q.tool, q.id, c.shim.Stderr())
	}
}

// cancel takes a call back. From then on an answer may come or not.
func (c *caller) cancel(q *question) error {
	c.mu.Lock()
	if c.open[q.id] != nil {
		q.cancelled = true
		c.taken = append(c.taken, q.id)
		for len(c.taken) > mostTaken {
			delete(c.open, c.taken[0]) // an answer that comes now is one too late
			c.taken = append(c.taken[:0], c.taken[1:]...)
		}
	}
	c.mu.Unlock()
	return c.shim.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", q.id))
}

// Codes of answers in place of a server that has ended, and for a call that had not
// left yet when the daemon was replaced.
const (
	lost    = -31012
	notSent = -31010
)

// overdue is in the refusal of a call about which the daemon was silent for too
// long, as it may be on a machine that does much else.
const overdue = "the daemon said nothing within"

// answer is what an agent makes of a line.
type answer struct {
	Result *struct {
		Content []struct{ Text string }
		IsError bool
	}
	Error *struct {
		Code    int
		Message string
	}
}

// right checks that a line is the server's own answer to q, byte for byte. It
// returns false for a call that went with a shared server, or that the daemon did not
// come to in time; both are counted.
func (c *caller) right(q *question, line []byte) (bool, error) {
	want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":`, q.id) + text(saying(q.name, q.size, q.pad)) + "}\n"
	if string(line) == want {
		return true, nil
	}
	var a answer
	switch err := json.Unmarshal(line, &a); {
	case err != nil:
	case c.shared && a.Error != nil && (a.Error.Code == lost || a.Error.Code == notSent):
		c.count("lost with a shared server", 1)
		return false, nil
	case a.Result != nil && a.Result.IsError && len(a.Result.Content) > 0 && strings.Contains(a.Result.Content[0].Text, overdue):
		c.count("refused as the daemon was slow", 1)
		return false, nil
	}
	return false, fmt.Errorf("%s: %s %d (%d bytes, %d wanted): got %.400s want %.200s", c.name, q.tool, q.id, len(q.pad), q.size, line, want)
}

// refused checks that a line refuses a call as a result of the tool.
func (c *caller) refused(q *question, line []byte) error {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil || a.Result == nil || !a.Result.IsError || len(a.Result.Content) == 0 {
		return fmt.Errorf("%s: %s %d: got %.400s, want a refusal", c.name, q.tool, q.id, line)
	}
	return nil
}
