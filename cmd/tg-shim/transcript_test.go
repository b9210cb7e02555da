package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A transcript is what an agent, a server and a daemon say, and what each must
// hear. One step a line:
//
//	agent> LINE      the agent writes LINE
//	agent< LINE      the agent reads LINE next
//	server> LINE     likewise the server
//	server< LINE
//	submit LINE      the daemon is asked about LINE next
//	forward          the daemon's verdict on the oldest line without a final one
//	replace LINE     the same, with LINE in its place
//	deny LINE        the daemon refuses and answers with LINE; "deny" alone with none
//	pending          the daemon asks a person
//	asking           the daemon asks extensions
//	inspect          a forward after which the daemon wants the result; "inspect
//	                 LINE" puts LINE in its place
//	came N LINE      what was submitted last is told with call N, as LINE was
//	                 written; "came" alone: with none
//	forward N, …     the verdict on line N instead
//	cancel N         the daemon is told that line N was taken back
//	deliver LINE     the daemon has a line of its own for the agent
//	observe TEXT     the daemon is told next of what contains TEXT
//	notice TEXT      the same, with other things before it
//	silent agent     the agent reads nothing for a while; likewise server
//	deaf             from here on the daemon does not say what it has heard
//	heard            it says that it has heard all that it was told
//	tear             the stream breaks; the shim must come back
//	opened TEXT      a shim whose server is shared opens the way to it next, and
//	                 what it says then contains TEXT
//	restart          the stream breaks, and the daemon that the shim comes back to is
//	                 another one with another server; only where that is shared
//	cross LINE       the agent writes LINE and the server reads it next
//	return LINE      the server writes LINE and the agent reads it next
//	judged LINE      the agent writes LINE, the daemon is asked about it and
//	                 forwards it, and the server reads it next
//	weighed LINE     likewise from the server to the agent
//	lines starting with # are comments
//
// {«» opens a JSON-RPC message, and «modern» is the _meta of a modern request.
//
// At the end each side gets a last line that passes, and must read nothing
// before it: whatever should not cross has not.
//
// Each is played twice: with a server of the shim's own, and with one that the
// daemon shares. Those in testdata/shared are for the second only.
func TestTranscripts(t *testing.T) {
	playTranscripts(t, "testdata/transcripts", false, "")
}

// They are played once more with lines that are long: the memory that these were
// read into is gone as soon as the next is read, and whoever looks there then ends
// the test.
func TestTranscriptsOfLongLines(t *testing.T) {
	blanks := strings.Repeat(" ", long)
	playTranscripts(t, "testdata/transcripts", false, blanks)
	playTranscripts(t, "testdata/transcripts", true, blanks)
}

func TestTranscriptsOfShared(t *testing.T) {
	playTranscripts(t, "testdata/transcripts", true, "")
	playTranscripts(t, "testdata/shared", true, "")
}

func playTranscripts(t *testing.T, dir string, shared bool, behind string) {
	files, err := filepath.Glob(dir + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		if behind != "" && filepath.Base(file) == "heard.txt" {
			continue // what comes behind a long line that waits to be heard is not read
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			playTranscript(t, file, string(text), shared, behind)
		})
	}
}

func playTranscript(t *testing.T, file, text string, shared bool, behind string) {
	stage := newStage(t, shared)
	stage.behind = behind
	for i, step := range strings.Split(text, "\n") {
		if step == "" || strings.HasPrefix(step, "#") {
			continue
		}
		if err := stage.play(step); err != nil {
			t.Fatalf("%s:%d: %s\n%v", file, i+1, step, err)
		}
	}
	for _, step := range []string{
		`agent> {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`server< {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`server> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`agent< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
	} {
		if err := stage.play(step); err != nil {
			t.Fatalf("%s: at the end: %s\n%v", file, step, err)
		}
	}
}

// patience is how long a step may take before the test gives up on it.
const patience = time.Minute

// stage is a shim's middle part between an agent, a server and a daemon that
// the test plays.
type stage struct {
	proxy  *proxy
	daemon *fakeGate
	in     [2]io.WriteCloser // what each side writes into
	out    [2]chan string    // what each side reads
	open   []*pb.Submit      // submitted, without a final verdict
	behind string            // blanks that stand behind each line that a side writes
}

func newStage(t testing.TB, shared bool) *stage {
	t.Helper()
	daemon := startFakeGate(t)
	if shared {
		daemon.way = &fakeWay{gate: daemon, lines: make(chan string, 256), opened: make(chan *pb.Open, 16)}
	}
	c, err := client.Dial(t.Context(), client.WithSocket(daemon.path))
	if err != nil {
		t.Fatal(err)
	}
	l, err := connect(t.Context(), c.Attach, &pb.Hello{Protocol: client.Protocol, Attachment: "0123456789abcdef", Server: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.silence = time.Minute // what no test here waits for
	s := &stage{daemon: daemon}
	s.proxy = &proxy{server: "test", log: l.log, link: l, ledger: newLedger(), profile: pb.Profile_PROFILE_PRODUCTION}
	l.obey = s.proxy
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var way *remote
	if shared {
		way = l.share(nil)
		daemon.way.shim = way
		s.proxy.kept.wanted = true
	}
	for _, side := range []wire.Side{wire.FromAgent, wire.FromServer} {
		var r io.Reader
		r, s.in[side] = io.Pipe()
		outR, outW := io.Pipe()
		s.proxy.lanes[side] = newLane(outW)
		if shared && side == wire.FromServer {
			r, s.in[side] = way, daemon.way
		}
		if shared && side == wire.FromAgent {
			s.proxy.lanes[side] = newLane(way)
			s.out[other(side)] = daemon.way.lines
			wait.Go(s.proxy.lanes[side].run)
			wait.Go(func() { (&shim{log: l.log}).pump(ctx, s.proxy, side, r) })
			continue
		}
		lines := make(chan string, 64)
		s.out[other(side)] = lines
		wait.Go(s.proxy.lanes[side].run)
		wait.Go(func() { (&shim{log: l.log}).pump(ctx, s.proxy, side, r) })
		wait.Go(func() {
			scan := bufio.NewScanner(outR)
			scan.Buffer(nil, 20<<20)
			for scan.Scan() {
				lines <- scan.Text()
			}
		})
		t.Cleanup(func() { outW.Close() })
	}
	wait.Go(func() { _ = l.run(ctx) })
	t.Cleanup(func() {
		cancel()
		for i := range s.in {
			s.in[i].Close()
			s.proxy.lanes[i].close()
		}
		if shared {
			way.end(nil)
		}
		c.Close()
	})
	return s
}

func (s *stage) play(step string) error {
	verb, rest, _ := strings.Cut(shorthand.Replace(step), " ")
	switch verb {
	case "agent>":
		return s.write(wire.FromAgent, rest)
	case "server>":
		return s.write(wire.FromServer, rest)
	case "agent<":
		return s.read(wire.FromAgent, rest)
	case "server<":
		return s.read(wire.FromServer, rest)
	case "cross":
		return s.playAll("agent> "+rest, "server< "+rest)
	case "return":
		return s.playAll("server> "+rest, "agent< "+rest)
	case "judged":
		return s.playAll("agent> "+rest, "submit "+rest, "forward", "server< "+rest)
	case "weighed":
		return s.playAll("server> "+rest, "submit "+rest, "forward", "agent< "+rest)
	case "submit":
		m, err := receive(s.daemon.submits)
		if err != nil {
			return err
		}
		s.open = append(s.open, m)
		return same(string(m.GetLine()), rest)
	case "came":
		m := s.open[len(s.open)-1]
		got := ""
		if m.GetAbout() > 0 {
			got = fmt.Sprintf("%d %s", m.GetAbout(), m.GetRequest())
		}
		return same(got, rest)
	case "cancel":
		m, err := receive(s.daemon.cancels)
		if err != nil {
			return err
		}
		return same(fmt.Sprint(m.GetSeq()), rest)
	case "deliver":
		s.daemon.say(&pb.Down{Msg: &pb.Down_Deliver{Deliver: &pb.Deliver{Line: []byte(rest)}}})
		return nil
	case "observe", "notice":
		for {
			m, err := receive(s.daemon.observations)
			if err != nil {
				return err
			}
			// The text form of a message varies its blanks on purpose.
			text := strings.Join(strings.Fields(m.String()), " ")
			if strings.Contains(text, rest) {
				return nil
			}
			if verb == "observe" && s.behind == "" { // of a long line it is told in pieces
				return fmt.Errorf("got %s", text)
			}
		}
	case "silent":
		select {
		case line := <-s.out[map[string]wire.Side{"agent": wire.FromAgent, "server": wire.FromServer}[rest]]:
			return fmt.Errorf("got %s", line)
		case <-time.After(100 * time.Millisecond):
			return nil
		}
	case "deaf":
		s.daemon.setDeaf()
		return nil
	case "heard":
		s.daemon.heard()
		return nil
	case "tear":
		s.daemon.tear()
		s.open = nil // all of it comes again
		return nil
	case "opened":
		m, err := receive(s.daemon.way.opened)
		if err != nil {
			return err
		}
		if text := fmt.Sprintf("kept %v initialize %s", m.GetTook() > 0, m.GetInitialize()); !strings.Contains(text, rest) {
			return fmt.Errorf("got %s", text)
		}
		return nil
	case "restart":
		s.daemon.way.restart()
		s.daemon.tear()
		s.open = nil
		return nil
	}
	return s.verdict(verb, rest)
}

func (s *stage) playAll(steps ...string) error {
	for _, step := range steps {
		if err := s.play(step); err != nil {
			return fmt.Errorf("%s\n%w", step, err)
		}
	}
	return nil
}

func (s *stage) verdict(verb, rest string) error {
	at := 0
	if first, after, _ := strings.Cut(rest, " "); first != "" && strings.Trim(first, "0123456789") == "" {
		rest = after
		for at < len(s.open) && fmt.Sprint(s.open[at].GetSeq()) != first {
			at++
		}
	}
	if at >= len(s.open) {
		return fmt.Errorf("nothing waits for a verdict")
	}
	m := s.open[at]
	v := &pb.Verdict{Seq: m.GetSeq()}
	line := m.GetLine()
	switch verb {
	case "pending", "asking":
		v.Action = pb.Action_ACTION_PENDING
		if verb == "pending" {
			v.Approval = fmt.Sprintf("A-%d", m.GetSeq())
		}
		s.daemon.send(v)
		return nil
	case "deny":
		v.Action = pb.Action_ACTION_DENY
		if rest != "" {
			v.Answer = []byte(rest)
		}
	case "replace", "notify", "forward", "inspect": // notify: and tell the agent
		if rest != "" {
			line = []byte(rest)
		}
		v = forwarded(&pb.Submit{Seq: m.GetSeq(), Line: line})
		if rest != "" {
			v.Replacement = line
		}
		if verb == "notify" || verb == "inspect" && rest != "" {
			v.Notice = "changed"
		}
		v.Inspect = verb == "inspect"
	case "swap": // a verdict on other bytes than those submitted
		v.Action = pb.Action_ACTION_FORWARD
		digest := sha256.Sum256([]byte("something else"))
		v.Digest = digest[:]
	default:
		return fmt.Errorf("no such step: %s", verb)
	}
	s.open = append(s.open[:at:at], s.open[at+1:]...)
	s.daemon.send(v)
	return nil
}

// forwarded is the verdict that lets a line through.
func forwarded(m *pb.Submit) *pb.Verdict {
	digest := sha256.Sum256(m.GetLine())
	return &pb.Verdict{Seq: m.GetSeq(), Action: pb.Action_ACTION_FORWARD, Digest: digest[:]}
}

func (s *stage) write(side wire.Side, line string) error {
	_, err := io.WriteString(s.in[side], line+s.behind+"\n")
	if err == nil && s.behind != "" {
		_, err = io.WriteString(s.in[side], "\n") // which is read when the line has been handled
	}
	return err
}

func (s *stage) read(side wire.Side, want string) error {
	got, err := receive(s.out[side])
	if err != nil {
		return err
	}
	return same(got, want)
}

// shorthand stands for what no line of text can hold, for what would make lines
// long, and for what opens every message.
var shorthand = strings.NewReplacer(`«LF»`, "\n", `«CR»`, "\r", `«FF»`, "\xff", `{«»`, `{"jsonrpc":"2.0"`,
	`«modern»`, `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)

func same(got, want string) error {
	if strings.TrimRight(got, " ") != strings.TrimRight(want, " ") {
		return fmt.Errorf(" got %s\nwant %s", got, want)
	}
	return nil
}

func receive[T any](c <-chan T) (T, error) {
	select {
	case v := <-c:
		return v, nil
	case <-time.After(patience):
		var none T
		return none, fmt.Errorf("nothing came within %v", patience)
	}
}

// fakeGate is a daemon that says what the test wants it to say.
type fakeGate struct {
	pb.UnimplementedGateServer
	path         string
	submits      chan *pb.Submit
	cancels      chan *pb.Cancel
	observations chan *pb.Observe
	counts       chan *pb.Count // what observations said of them
	way          *fakeWay       // nil: the server is the shim's own
	crowds       chan int       // how many messages came in one, while there is room

	mu     sync.Mutex
	stream grpc.BidiStreamingServer[pb.Up, pb.Down]
	torn   chan struct{}
	deaf   bool
	why    error  // why the stream is torn
	echo   uint64 // of the last observation that is to be answered
}

func startFakeGate(t testing.TB) *fakeGate {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g := &fakeGate{
		path: filepath.Join(dir, "shim.sock"), submits: make(chan *pb.Submit, 256),
		cancels: make(chan *pb.Cancel, 64), observations: make(chan *pb.Observe, 256), counts: make(chan *pb.Count, 1024),
		crowds: make(chan int, 64),
	}
	l, err := net.Listen("unix", g.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(g.path, 0o600); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(client.MaxMessage))
	pb.RegisterGateServer(server, g)
	var wait sync.WaitGroup
	wait.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		wait.Wait()
	})
	return g
}

func (g *fakeGate) Attach(stream grpc.BidiStreamingServer[pb.Up, pb.Down]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	torn := make(chan struct{})
	g.mu.Lock()
	g.stream, g.torn = stream, torn
	g.mu.Unlock()
	welcome := &pb.Welcome{Protocol: client.Protocol, Profile: pb.Profile_PROFILE_PRODUCTION,
		Limits: &pb.Limits{Window: 32, Reattach: durationpb.New(5 * time.Second)}, Together: 64}
	g.way.welcome(welcome)
	if err := stream.Send(&pb.Down{Msg: &pb.Down_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { // ends with the stream
		for {
			up, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case g.crowds <- 1 + len(up.GetMore()):
			default:
			}
			g.take(up)
			for _, more := range up.GetMore() {
				g.take(more)
			}
		}
	}()
	select {
	case <-torn:
		return g.why
	case err := <-ended:
		return err
	}
}

// take takes one message in.
func (g *fakeGate) take(up *pb.Up) {
	switch m := up.GetMsg().(type) {
	case *pb.Up_Submit:
		g.submits <- m.Submit
	case *pb.Up_Cancel:
		g.cancels <- m.Cancel
	case *pb.Up_Observe:
		if counts := m.Observe.GetCounts(); len(counts) > 0 {
			for _, c := range counts {
				g.counts <- c
			}
			return
		}
		g.observations <- m.Observe
		g.listen(m.Observe.GetEcho())
	default:
		g.way.heed(up)
	}
}

// listen answers an observation, unless the daemon is deaf.
func (g *fakeGate) listen(echo uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if echo == 0 {
		return
	}
	if g.echo = echo; !g.deaf {
		_ = g.stream.Send(&pb.Down{Msg: &pb.Down_Heard{Heard: &pb.Heard{Echo: echo}}})
	}
}

func (g *fakeGate) setDeaf() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deaf = true
}

func (g *fakeGate) heard() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deaf = false
	_ = g.stream.Send(&pb.Down{Msg: &pb.Down_Heard{Heard: &pb.Heard{Echo: g.echo}}})
}

func (g *fakeGate) send(v *pb.Verdict) {
	g.say(&pb.Down{Msg: &pb.Down_Verdict{Verdict: v}})
}

func (g *fakeGate) say(m *pb.Down) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.stream.Send(m)
}

func (g *fakeGate) tear() { g.tearFor(io.ErrUnexpectedEOF) }

// tearFor ends the stream with an error.
func (g *fakeGate) tearFor(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = why
	close(g.torn)
}
