package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	mostTerminals = 32      // open terminals of one run
	mostOutput    = 4 << 20 // maximum output that a terminal keeps, in bytes
	usualOutput   = 1 << 20 // default, where the agent sets no limit
)

// terminalGrace is the grace period of a command that nobody waits for any more.
var terminalGrace = child.Grace{Term: 2 * time.Second}

// terminals are the commands that a run's agent had started.
type terminals struct {
	mu     sync.Mutex // guards the fields below
	last   int
	open   map[string]*terminal
	closed bool
}

// terminal is one command. Despite the name it has pipes and no terminal.
type terminal struct {
	id      string
	child   *child.Child
	output  output
	reading atomic.Int32  // streams that have not ended
	read    chan struct{} // closed when all streams have ended
}

// createTerminal handles terminal/create.
func (o *run) createTerminal(_ context.Context, p *submit.Permitted) ([]byte, string, error) {
	spec, most, err := o.toStart(p.Arguments)
	if err != nil {
		return nil, "", err
	}
	id, err := o.terminals.start(spec, most)
	if err != nil {
		return nil, "", err
	}
	return append(wire.AppendQuote([]byte(`{"terminalId":`), id), '}'), "", nil
}

// toStart parses the command to start. No shell interprets it, unless the agent names one.
func (o *run) toStart(a rawjson.Object) (child.Spec, int, error) {
	spec := child.Spec{Dir: o.request.Cwd, Env: o.env, Mark: "THOUGHTGATE_CHILD=" + rand.Text()}
	spec.Command, spec.Args = a.Text("command"), a.Texts("args")
	if strings.ContainsRune(strings.Join(spec.Args, ""), 0) {
		a.Fail("args contains a NUL")
	}
	if dir := a.OptionalText("cwd"); dir != "" {
		spec.Dir = dir
	}
	if !filepath.IsAbs(spec.Dir) {
		a.Fail("the folder %q is not absolute", spec.Dir)
	}
	spec.Env = child.ComposeEnv(o.env, variables(a), nil)
	most := a.Number("outputByteLimit", usualOutput)
	return spec, int(min(most, mostOutput)), invalid(a.Err())
}

// variables returns the variables that a command gets in addition to the run's. They can't
// replace the THOUGHTGATE_ variables, which mark what a run has started.
func variables(a rawjson.Object) map[string]string {
	all := map[string]string{}
	for _, v := range a.Objects("env") {
		key, value := v.OptionalText("name"), v.OptionalText("value")
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) || strings.HasPrefix(key, "THOUGHTGATE_") {
			a.Fail("the variable %q is not allowed here", key)
		}
		all[key] = value
	}
	return all
}

func (ts *terminals) start(spec child.Spec, most int) (string, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case ts.closed:
		return "", errors.New("the run has ended")
	case len(ts.open) >= mostTerminals:
		return "", fmt.Errorf("%d terminals are already open; release some", mostTerminals)
	}
	c, err := child.Start(spec)
	if err != nil {
		return "", err
	}
	_ = c.Stdin().Close() // there is no input
	ts.last++
	t := &terminal{id: fmt.Sprintf("T-%d", ts.last), child: c, output: output{most: most}, read: make(chan struct{})}
	t.reading.Store(2)
	go t.keep(c.Stdout()) // both return after the command has ended; end waits for them
	go t.keep(c.Stderr())
	ts.open[t.id] = t
	return t.id, nil
}

// onTerminal returns a handler for a request about an open terminal.
func onTerminal(answer func(o *run, ctx context.Context, t *terminal) (result []byte, heard string, err error)) handler {
	return func(o *run, ctx context.Context, p *submit.Permitted) ([]byte, string, error) {
		id := p.Arguments.Text("terminalId")
		if err := p.Arguments.Err(); err != nil {
			return nil, "", invalid(err)
		}
		o.terminals.mu.Lock()
		t := o.terminals.open[id]
		o.terminals.mu.Unlock()
		if t == nil {
			return nil, "", fmt.Errorf("no terminal %q", id)
		}
		return answer(o, ctx, t)
	}
}

// keep reads one stream to its end.
func (t *terminal) keep(from io.Reader) {
	_, _ = io.Copy(&t.output, from) // what was read before an error is kept
	if t.reading.Add(-1) == 0 {
		close(t.read)
	}
}

// end stops the command and all processes that it started.
func (t *terminal) end() {
	t.child.Stop(context.Background(), terminalGrace)
	<-t.read
}

// close ends all terminals.
func (ts *terminals) close() {
	ts.mu.Lock()
	ts.closed = true
	open := ts.open
	ts.open = nil
	ts.mu.Unlock()
	var work sync.WaitGroup
	for _, t := range open {
		work.Go(t.end)
	}
	work.Wait()
}

// exitStatus returns how a command ended, in the protocol's JSON; empty while it runs.
func (t *terminal) exitStatus() string {
	select {
	case <-t.child.Done():
	default:
		return ""
	}
	s := t.child.Wait()
	if s.Signal != 0 {
		return string(append(wire.AppendQuote([]byte(`{"exitCode":null,"signal":`), strings.TrimPrefix(s.String(), "killed by ")), '}'))
	}
	return fmt.Sprintf(`{"exitCode":%d,"signal":null}`, s.Code)
}

// terminalOutput handles terminal/output.
func (o *run) terminalOutput(_ context.Context, t *terminal) ([]byte, string, error) {
	status := t.exitStatus()
	if status != "" {
		supervise.Await(t.read, settleWait)
	}
	text, cut := t.output.read()
	result := wire.AppendQuote([]byte(`{"output":`), text)
	result = fmt.Appendf(result, `,"truncated":%t`, cut)
	if status != "" {
		result = append(append(result, `,"exitStatus":`...), status...)
	}
	return append(result, '}'), text, nil
}

// settleWait limits the wait for the last output of a command that has ended: a process that it
// started may hold its streams open forever.
const settleWait = 500 * time.Millisecond

// waitForTerminal handles terminal/wait_for_exit.
func (o *run) waitForTerminal(ctx context.Context, t *terminal) ([]byte, string, error) {
	select {
	case <-t.child.Done():
		return []byte(t.exitStatus()), "", nil
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	case <-o.requests.Done():
		return nil, "", context.Cause(o.requests)
	}
}

// killTerminal handles terminal/kill: the command ends, and its output remains available.
func (o *run) killTerminal(_ context.Context, t *terminal) ([]byte, string, error) {
	t.end()
	return []byte("{}"), "", nil
}

// releaseTerminal handles terminal/release: the command ends and is removed.
func (o *run) releaseTerminal(_ context.Context, t *terminal) ([]byte, string, error) {
	o.terminals.mu.Lock()
	delete(o.terminals.open, t.id)
	o.terminals.mu.Unlock()
	t.end()
	return []byte("{}"), "", nil
}
