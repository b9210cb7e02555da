package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// forms are the ways in which a server behind an address answers, and its paths: a message in JSON, or
// a stream of events, as servers do that might have more to say.
var forms = []string{"json", events}

const events = "events"

const sessionHeader = "Mcp-Session-Id"

// serveWeb serves MCP over HTTP or, with an address in args, is a plain reverse proxy to it. It prints
// its own address.
func serveWeb(args []string) error {
	var handler http.Handler = http.HandlerFunc(answer)
	if len(args) > 0 {
		to, err := url.Parse(args[0])
		if err != nil {
			return err
		}
		handler = httputil.NewSingleHostReverseProxy(to)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, handler)
}

// answer answers every message at once, as serve does.
func answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/"+events: // for what the server says by itself: nothing
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	line, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if bytes.Contains(line, []byte(`"initialize"`)) {
		w.Header().Set(sessionHeader, "bench")
	}
	var a answerer // of its own: requests come at the same time, and no tool of theirs returns much
	out := a.answer(line)
	switch {
	case out == nil:
		w.WriteHeader(http.StatusAccepted)
	case r.URL.Path == "/"+events:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n", out) // the agent notices if it gets nothing
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out) // likewise
	}
}

// carrier is an agent's client of a server behind an address: a line is posted, and its answer read,
// before Write returns. It is no slower than it must be: what a gate adds would look smaller.
type carrier struct {
	transport *http.Transport
	address   *url.URL
	session   string
	answer    bytes.Buffer
}

func newCarrier(address string) *carrier {
	to, _ := url.Parse(address) // of ours
	return &carrier{transport: &http.Transport{DisableCompression: true}, address: to}
}

func (c *carrier) Write(line []byte) (int, error) {
	request := &http.Request{
		Method: http.MethodPost, URL: c.address, Body: io.NopCloser(bytes.NewReader(line)), ContentLength: int64(len(line)),
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
	}
	if c.session != "" {
		request.Header[sessionHeader] = []string{c.session}
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		return 0, errors.Join(err, fmt.Errorf("the server answers %s: %.200q", response.Status, body))
	}
	if id := response.Header.Get(sessionHeader); id != "" {
		c.session = id
	}
	if body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("data: "))); len(body) > 0 {
		c.answer.Write(append(body, '\n'))
	}
	return len(line), nil
}

func (c *carrier) Read(p []byte) (int, error) { return c.answer.Read(p) }

func (c *carrier) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// remote is what is needed to measure servers behind an address. Unlike servers on pipes, they are the
// same for all ways.
type remote struct {
	*fixture
	server, proxy string // addresses
	session       string // of the agent; it has a server of each form
	webs          []*exec.Cmd
	ends          []func() error
}

// behindAddress starts a server, a plain reverse proxy to it, and a session as `tgctl wrap` does. It
// must be closed.
func (h *fixture) behindAddress() (*remote, error) {
	w := &remote{fixture: h, session: "00112233445566778899aabbccddeeff"}
	err := w.begin()
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *remote) begin() (err error) {
	if w.server, err = w.web(); err != nil {
		return err
	}
	if w.proxy, err = w.web(w.server); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(w.control()))
	if err != nil {
		return err
	}
	w.ends = append(w.ends, c.Close)
	spec := &pb.SessionSpec{Id: w.session, Agent: "custom", Command: []string{w.self}, Project: w.dir}
	for _, form := range forms {
		spec.Remotes = append(spec.Remotes, &pb.RemoteServer{Server: form, Address: w.server + "/" + form, Transport: "http"})
	}
	s, err := c.OpenSession(ctx, spec)
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func() error {
		_, err := s.Close(context.Background())
		return err
	})
	return nil
}

func (w *remote) close() error {
	var err error
	for _, end := range slices.Backward(w.ends) {
		err = errors.Join(err, end())
	}
	return err
}

// web starts this program as a server behind an address, or as a proxy to one, and returns its address.
func (w *remote) web(args ...string) (string, error) {
	web := exec.Command(w.self, append([]string{"web"}, args...)...)
	web.Env, web.Stderr = w.env, os.Stderr
	out, err := web.StdoutPipe()
	if err == nil {
		err = web.Start()
	}
	if err != nil {
		return "", err
	}
	w.webs = append(w.webs, web)
	w.ends = append(w.ends, func() error {
		err := web.Process.Kill()
		_ = web.Wait() // it was killed
		return err
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("start a server behind an address: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// ways returns the ways to the server: the agent speaks HTTP to it (direct), or does so through the
// proxy (floor), or writes to the pipe of a tg-shim (ours).
func (w *remote) ways(form string) []way {
	var pids []int
	for _, web := range w.webs {
		pids = append(pids, web.Process.Pid)
	}
	return []way{
		direct: {name: "direct", address: w.server + "/" + form, beside: pids[:1], greets: true},
		floor:  {name: "floor", address: w.proxy + "/" + form, beside: pids, greets: true},
		ours: {
			name: "ours", command: []string{filepath.Join(w.bin, "tg-shim"), "--server-id", form, "--remote"}, fixture: w.fixture,
			env: append(slices.Clone(w.env), "THOUGHTGATE_SESSION="+w.session), beside: pids[:1], greets: true,
		},
	}
}

// greet is the handshake of an agent with a server behind an address.
func (s *session) greet() error {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		if _, err := s.in.Write([]byte(line + "\n")); err != nil {
			return err
		}
	}
	_, err := s.receive()
	return err
}

// measureRemote measures governed calls to a server behind an address on this machine, and the memory
// of sessions with it.
func measureRemote(h *fixture, r *report, o options) error {
	w, err := h.behindAddress()
	if err != nil {
		return err
	}
	defer w.close()
	idle := h.contest().daemons()[ours]
	if err := w.measureCrowd(r, idle); err != nil {
		return err
	}
	for _, form := range forms {
		t, err := among(w.ways(form)...).calls(governed, 1, o.turns)
		if err != nil {
			return err
		}
		name := func(what string) string { return "remote." + form + "." + what }
		p50 := t.row(t.p50)
		p50.Ratio = t.p50.timesAdded()
		r.add(name("p50"), p50)
		r.add(name("p99"), t.row(t.p99))
		r.add(name("cpu"), t.row(t.cpu))
	}
	return nil
}

// remoteCrowd is how many sessions there are at once.
const remoteCrowd = 200

// measureCrowd measures the memory of sessions with the server, beside that of as many with servers on
// pipes in a daemon of their own. Each has a stream open for what the server says by itself. idle is that of the daemon before.
func (w *remote) measureCrowd(r *report, idle memory) error {
	pipes, err := newFixture(w.bin, "")
	if err != nil {
		return err
	}
	defer pipes.close()
	each := func(w way, idle memory) (shim, daemon memory, err error) {
		c, err := w.crowd(remoteCrowd)
		daemon.add(c.daemon.minus(idle), remoteCrowd)
		return c.each, daemon, err
	}
	beside := pipes.ways()[ours]
	besideShim, besideDaemon, err := each(beside, memoryOf(pipes.daemon.Process.Pid))
	if err != nil {
		return err
	}
	shim, daemon, err := each(w.ways(events)[ours], idle)
	if err != nil {
		return err
	}
	r.add("memory.remote", row{
		Ours: once(shim.resident + daemon.resident), Share: shim.share + daemon.share,
		Note: fmt.Sprintf("%s resident of it in the daemon; with servers on pipes %s, and %s of it", number(daemon.resident), number(besideShim.resident+besideDaemon.resident), number(besideDaemon.resident)),
	})
	return nil
}
