package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/remote/sse"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	largeBytes    = 1 << 20                      // of a message that counts as large
	maxLarge      = 4                            // messages that are received at once
	maxQuietBytes = wire.MaxMessage + largeBytes // that are read for one message, with all that surrounds it
	maxErrorBytes = 64 << 10                     // of the body of an HTTP error
	maxBreaks     = 2                            // characters that end a message of the greatest length
)

var (
	errTooLong = errors.New("the server's message is longer than 10 MiB")
	errForeign = errors.New("the server answers another request on this one's stream")
	errTorn    = errors.New("the response ended before the answer")
	errRefused = errors.New("the server's message was refused")
)

// isHostile reports whether err is about what the server said, and not about how much of it arrived.
func isHostile(err error) bool {
	return errors.Is(err, errForeign) || errors.Is(err, errTooLong) || errors.Is(err, errRefused)
}

// meter reads a response. It limits what is read for one message, after decompression, and lets only
// some messages of a connection be large at the same time.
type meter struct {
	body  io.Reader
	ctx   context.Context // of the exchange; a meter lives as long
	large chan struct{}
	n     int // bytes since the last message
	holds bool
}

func (m *meter) Read(p []byte) (int, error) {
	if m.n > maxQuietBytes {
		return 0, errTooLong
	}
	if m.n > largeBytes && !m.holds {
		select {
		case m.large <- struct{}{}:
			m.holds = true
		case <-m.ctx.Done():
			return 0, context.Cause(m.ctx)
		}
	}
	n, err := m.body.Read(p)
	m.n += n
	return n, err
}

// reset begins the next message.
func (m *meter) reset() {
	m.n = 0
	if m.holds {
		m.holds = false
		<-m.large
	}
}

// oneLine returns data without line breaks between tokens, where JSON allows them. It fails if a line
// break is in a string or if the text ends in one: a reader of lines would take what follows for the
// rest of it.
func oneLine(data []byte) (line []byte, ok bool) {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data, true
	}
	line = bytes.Clone(data)
	quoted, escaped := false, false
	for i, b := range line {
		switch {
		case b == '\n' || b == '\r':
			if quoted {
				return nil, false
			}
			line[i] = ' '
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		}
	}
	if quoted {
		return nil, false
	}
	return line, true
}

// receive handles one message of the server. It came on the stream of r, or of the session s itself if
// r is nil. After an error nothing more may be read from the stream.
func (c *Conn) receive(s *session, r *request, data []byte) error {
	var e wire.Envelope
	line, ok := oneLine(data)
	switch {
	case !ok:
		return c.drop(r, "a line break within a string")
	case len(bytes.TrimSpace(line)) == 0:
		return c.drop(r, "it is empty")
	}
	if err := wire.Read(line, wire.FromServer, &e); err != nil {
		return c.refused(s, r, line, err)
	}
	if e.Kind != wire.Result && e.Kind != wire.Error || !e.ID.Present() {
		c.deliver(line)
		return nil
	}
	c.mu.Lock()
	of := c.open[e.Key(line)]
	isTorn := of != nil && of.session == s && of.torn
	c.mu.Unlock()
	switch {
	case r == nil && isTorn: // servers take this stream for the one that continues it
		defer of.cancel(errAnswered)
		return c.answer(of, line, &e)
	case r == nil && !c.hasOneStream(s): // also if nobody asks yet: who reads the lines may know of a request that is not sent
		return c.drop(nil, "an answer on the stream for other messages")
	case of == nil: // whoever reads the lines refuses and records it
		c.deliver(line)
		return nil
	case of == r, r == nil && of.session == s:
		return c.answer(of, line, &e)
	case r == nil:
		return c.drop(nil, "an answer to a request of an earlier session")
	}
	return c.dropLine(r, errForeign)
}

// answer handles the answer to r.
func (c *Conn) answer(r *request, line []byte, e *wire.Envelope) error {
	if !c.take(r) {
		return nil // it was cancelled
	}
	c.mu.Lock()
	c.answered, c.failure = true, nil
	r.prove()
	c.mu.Unlock()
	switch {
	case r.answer != nil:
		r.answer(line)
		return nil
	case r.e.Method == "initialize" && e.Kind == wire.Result:
		c.begun(r.session, r.line, line, e)
	case r.e.Method == "tools/list" && e.Kind == wire.Result && r.e.Modern:
		line = c.learn(line, e)
	}
	c.deliver(line)
	return nil
}

// drop counts a line that goes nowhere. If it came as the answer to r, that has none.
func (c *Conn) drop(r *request, why string) error {
	return c.dropLine(r, fmt.Errorf("%w: %s", errRefused, why))
}

func (c *Conn) dropLine(r *request, err error) error {
	c.mu.Lock()
	c.dropped++
	n := c.dropped
	c.mu.Unlock()
	if n&(n-1) == 0 { // 1, 2, 4, 8, ...
		c.log.Warn("drop a message of the server", "err", err, "dropped", n)
	}
	if r == nil {
		return nil
	}
	return err
}

// refused handles a line that the strict reader refuses. Whoever reads the lines refuses it, too, and
// records and answers it. But a line that could be understood as being about a request on another
// stream, or could swallow the lines that follow it, goes nowhere.
func (c *Conn) refused(s *session, r *request, line []byte, err error) error {
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) {
		return c.drop(r, err.Error())
	}
	var of *request
	isAbout, hasOne := refusal.ID.Present(), r == nil && c.hasOneStream(s)
	c.mu.Lock()
	if key, err := wire.Key(refusal.ID.Of(line)); err == nil && isAbout {
		if of = c.open[key]; of != nil {
			of.prove()
		}
	}
	c.mu.Unlock()
	switch isBatch := wire.KindOf(refusal.Reason) == wire.KindBatch; {
	case hasOne && endsInString(line):
		if of != nil {
			c.answerError(of, fmt.Errorf("remote server %s: %w: %s", c.server.ID, errRefused, refusal.Reason))
		}
		return c.drop(nil, refusal.Reason)
	case !hasOne && (isAbout && of != r || isBatch || endsInString(line)):
		return c.drop(r, refusal.Reason)
	}
	c.deliver(line)
	if of != nil && !refusal.Answer && c.take(of) { // the refusal answers it
		of.cancel(errAnswered)
	}
	return nil
}

// endsInString reports whether the quotes of line do not match.
func endsInString(line []byte) bool {
	_, ok := oneLine(append(bytes.Clone(line), '\n'))
	return !ok
}

// readAnswer reads the response to r, and the streams that continue it, until r is answered.
func (c *Conn) readAnswer(r *request, resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		return c.follow(r, resp)
	case kind == "application/json":
		defer resp.Body.Close()
		return c.readBody(r, resp)
	}
	resp.Body.Close()
	return fmt.Errorf("the server answers %s with neither JSON nor a stream of events, but %.64q", status(resp), kind)
}

// readBody reads the one message that answers r.
func (c *Conn) readBody(r *request, resp *http.Response) error {
	m := &meter{body: resp.Body, ctx: r.ctx, large: c.large}
	defer m.reset()
	data, err := io.ReadAll(io.LimitReader(m, wire.MaxMessage+maxBreaks+1))
	if err != nil {
		return fmt.Errorf("%w: %w", errTorn, ownWords(err))
	}
	if data = bytes.Trim(data, "\r\n"); len(data) > wire.MaxMessage { // many servers end it like a line
		return errTooLong
	}
	if err := c.receive(r.session, r, data); err != nil {
		return err
	}
	if c.isOpen(r) {
		return errors.New("the response is not the answer")
	}
	return nil
}

// stream is a stream of events, over all responses that continue it.
type stream struct {
	id    string        // to resume from; empty if the stream can't be resumed
	retry time.Duration // that the server asks for before it is connected to again; 0 for any

	meter  *meter // of the current response
	events *sse.Reader
	n      int // messages of the current response
}

// begin begins to read resp.
func (c *Conn) begin(ctx context.Context, t *stream, resp *http.Response) {
	t.meter = &meter{body: resp.Body, ctx: ctx, large: c.large}
	t.events, t.n = sse.NewReader(t.meter, wire.MaxMessage), 0
}

// read reads the messages of the current response until it ends, or until r is answered, which may be
// nil.
func (c *Conn) read(s *session, r *request, t *stream) error {
	defer t.meter.reset()
	for {
		var e sse.Event
		err := t.events.Next(&e)
		if id := t.events.LastID(); id != "" || t.n > 0 {
			t.id = resumable(id)
		}
		if retry := t.events.Retry(); retry > 0 {
			t.retry = retry
		}
		switch {
		case err != nil:
			return err
		case e.TooLong:
			if err := c.dropLine(r, errTooLong); err != nil || c.hasOneStream(s) {
				return errTooLong // nobody knows which request it answers, so all get an error
			}
		case len(bytes.TrimSpace(e.Data)) > 0 && (e.Name == "" || e.Name == "message"):
			if err := c.receive(s, r, e.Data); err != nil {
				return err
			}
			t.n++
		}
		t.meter.reset()
		if r != nil && !c.isOpen(r) {
			return nil
		}
	}
}

// hasOneStream reports whether all answers of s come on one stream, as in 2024-11-05.
func (c *Conn) hasOneStream(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.endpoint != nil
}

// resumable returns id if it can be the value of a header.
func resumable(id string) string {
	if strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return ""
	}
	return id
}

// errorLine returns the JSON-RPC error in the body of an HTTP error, as the answer to r. Such an error
// may have no id, or null for one. It returns nil if there is none.
func (r *request) errorLine(body []byte) ([]byte, *wire.Envelope) {
	line, ok := oneLine(bytes.TrimSpace(body))
	if !ok {
		return nil, nil
	}
	var e wire.Envelope
	if err := wire.Read(line, wire.FromServer, &e); err == nil && e.Kind == wire.Error && e.Key(line) == r.key {
		return line, &e
	} else if err == nil && e.ID.Present() {
		return nil, nil
	}
	members, err := rawjson.Members(line)
	if err != nil {
		return nil, nil
	}
	for _, m := range members {
		switch {
		case m.Name == "id" && string(m.Value) != "null":
			return nil, nil
		case m.Name == "error":
			line = append(append(append([]byte(`{"jsonrpc":"2.0","id":`), r.id...), `,"error":`...), m.Value...)
			ok = false
		}
	}
	if line = append(line, '}'); ok || wire.Read(line, wire.FromServer, &e) != nil || e.Kind != wire.Error {
		return nil, nil
	}
	return line, &e
}

// statusError says what an HTTP status means for the agent.
func statusError(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: the server wants other credentials", status(resp))
	}
	return errors.New(status(resp))
}

// status returns the status of a response in the words of the standard: the server's own are not to be
// trusted.
func status(resp *http.Response) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
}

// learn notes which parameters of the listed tools are repeated in headers. It removes the tools that
// break the rules for that: no client may use them.
func (c *Conn) learn(line []byte, e *wire.Envelope) []byte {
	list, err := wire.ReadList(line, e, "tools")
	if err != nil {
		return line
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	isBad := make([]bool, len(list.Items))
	for i, tool := range list.Elements {
		mirrors, err := mirrorsOf(list.Items[i].Of(line))
		if err != nil {
			isBad[i] = true
			c.log.Warn("remove a tool from a list: its definition is invalid", "tool", tool.Name, "err", err)
		}
		delete(c.mirrors, tool.Name)
		if mirrors != nil && len(c.mirrors) < maxTools {
			c.mirrors[tool.Name] = mirrors
		}
	}
	edited, err := wire.Splice(line, list.Items.Cut(func(i int) bool { return isBad[i] })...)
	if err != nil {
		return line
	}
	return edited
}

const codeHeaderMismatch = -32020 // modern: the headers do not repeat what the message says
