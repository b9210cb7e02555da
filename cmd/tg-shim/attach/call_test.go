package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// daemon is a Relay service whose behavior the test sets.
type daemon struct {
	pb.UnimplementedGateServer
	attach func(context.Context, *pb.AttachRequest) (*pb.AttachResponse, error)
	mu     sync.Mutex
	said   []proto.Message // requests of the other calls
}

func (d *daemon) Attach(ctx context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
	return d.attach(ctx, r)
}

func (d *daemon) note(m proto.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, m)
}

func (d *daemon) Started(_ context.Context, r *pb.StartedRequest) (*pb.StartedResponse, error) {
	d.note(r)
	return &pb.StartedResponse{}, nil
}

func (d *daemon) Signal(_ context.Context, r *pb.SignalRequest) (*pb.SignalResponse, error) {
	d.note(r)
	return &pb.SignalResponse{}, nil
}

// handshake receives descriptors as the daemon's does.
type handshake struct {
	credentials.TransportCredentials
}

type came struct {
	credentials.CommonAuthInfo
	passed *sock.Passed
}

func (came) AuthType() string { return "test" }

func (handshake) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	passed, err := c.(*sock.Conn).Receive(5)
	return c, came{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, passed}, err
}

func (handshake) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (h handshake) Clone() credentials.TransportCredentials { return h }

// serve serves d and returns the path of the socket and the server.
func serve(t *testing.T, d *daemon, options ...grpc.ServerOption) (string, *grpc.Server) {
	t.Helper()
	dir := tempdir.New(t, "/tmp", "attach")
	l, err := sock.Listen(filepath.Join(dir, "shim.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.Creds(handshake{}))...)
	pb.RegisterGateServer(server, d)
	done := make(chan error)
	go func() { done <- server.Serve(sock.Checked(l)) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return filepath.Join(dir, "shim.sock"), server
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAttach(t *testing.T) {
	if Protocol != client.Protocol {
		t.Errorf("shims speak protocol %d and clients %d", Protocol, client.Protocol)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var got *pb.AttachRequest
	var agent string
	var fds []int
	d := &daemon{attach: func(ctx context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
		got = r
		p, _ := peer.FromContext(ctx)
		fds = p.AuthInfo.(came).passed.Take()
		agent = strings.Join(metadata.ValueFromIncomingContext(ctx, "user-agent"), ",")
		if left, ok := ctx.Deadline(); !ok || time.Until(left) > time.Minute {
			return nil, fmt.Errorf("the deadline is %v, %v", left, ok)
		}
		return &pb.AttachResponse{
			Protocol: client.Protocol, Build: "v1", Profile: pb.Profile_PROFILE_DEVELOPMENT, Start: true, RawStderr: true,
			Reattach: durationpb.New(15*time.Second + 1),
		}, nil
	}}
	path, _ := serve(t, d)
	c := Daemon(path)
	hello := Hello{
		Build: "b", Attachment: "a", Session: "s", Server: "x", Executable: "/bin/cat", Command: []string{"cat", "", "-"}, Cwd: "/",
		Profile: Production, From: "/f", Sets: []string{"S"}, Patience: 90*time.Second + 5, Extension: "e", Remote: true,
	}
	welcome, err := c.Attach(limited(t), &hello, int(r.Fd()), int(w.Fd()), int(w.Fd()), int(r.Fd()), int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Welcome{"v1", Development, true, true, 15*time.Second + 1}); fmt.Sprint(*welcome) != fmt.Sprint(want) {
		t.Errorf("it says %v, want %v", *welcome, want)
	}
	if want := (&pb.AttachRequest{
		Protocol: client.Protocol, Build: "b", Attachment: "a", Session: "s", Server: "x", Executable: "/bin/cat", Command: []string{"cat", "", "-"}, Cwd: "/",
		Profile: pb.Profile_PROFILE_PRODUCTION, From: "/f", Sets: []string{"S"}, Patience: durationpb.New(90*time.Second + 5), Extension: "e", Remote: true,
	}); !proto.Equal(got, want) {
		t.Errorf("it heard %v, want %v", got, want)
	}
	if len(fds) != 5 || !strings.Contains(agent, "tg-shim") {
		t.Errorf("descriptors %v, user agent %q", fds, agent)
	}
	for _, fd := range fds {
		os.NewFile(uintptr(fd), "").Close()
	}
	if err := errors.Join(c.Started(limited(t), "a", 42, ""), c.Started(limited(t), "a", 0, "no such file"), c.Signal(limited(t), "a", 15)); err != nil {
		t.Error(err)
	}
	for i, want := range []proto.Message{
		&pb.StartedRequest{Attachment: "a", Pid: 42}, &pb.StartedRequest{Attachment: "a", Reason: "no such file"}, &pb.SignalRequest{Attachment: "a", Signal: 15},
	} {
		if i >= len(d.said) || !proto.Equal(d.said[i], want) {
			t.Errorf("it heard %v, want %v as number %d", d.said, want, i)
		}
	}
	var not *Status
	if err := c.Ended(limited(t), "a", 7, 0); !errors.As(err, &not) || not.Code != codeUnimplemented || not.IsTemporary() || !strings.Contains(not.Message, "restart it") {
		t.Errorf("of a call that it does not know it says %v", err)
	}
}

func TestStatus(t *testing.T) {
	d := &daemon{attach: func(_ context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
		var code codes.Code
		if _, err := fmt.Sscan(r.GetServer(), &code); err == nil {
			return nil, status.Error(code, r.GetCwd())
		}
		panic(r.GetServer())
	}}
	path, _ := serve(t, d)
	c := Daemon(path)
	for _, test := range []struct {
		code    codes.Code
		message string
		passing bool
	}{
		{codes.PermissionDenied, "server \"x\" is withheld until a person accepts it:\n\tlook at it with 50 % 日本語 %41", false},
		{codes.FailedPrecondition, strings.Repeat("long ", 2000), false},
		{codes.Unavailable, "the daemon is ending", true},
		{codes.Canceled, "c", true},
		{codes.ResourceExhausted, "r", false},
	} {
		_, err := c.Attach(limited(t), &Hello{Server: fmt.Sprint(uint32(test.code)), Cwd: test.message})
		var got *Status
		if !errors.As(err, &got) || got.Code != int(test.code) || got.Message != test.message || got.IsTemporary() != test.passing {
			t.Errorf("%v: %#v, want %v", test.code, err, test)
		}
	}
}

// Headers of a reply may be large, up to a limit.
func TestLargeHeaders(t *testing.T) {
	d := &daemon{attach: func(ctx context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
		for i := range 10 {
			value := strings.Repeat(fmt.Sprintf("%d-", i), len(r.GetCwd())/20)
			_ = grpc.SetHeader(ctx, metadata.Pairs(fmt.Sprintf("x-%d", i), value))
			_ = grpc.SetTrailer(ctx, metadata.Pairs(fmt.Sprintf("y-%d", i), value))
		}
		return &pb.AttachResponse{Protocol: client.Protocol}, nil
	}}
	path, _ := serve(t, d)
	c := Daemon(path)
	for range 3 {
		if _, err := c.Attach(limited(t), &Hello{Cwd: strings.Repeat("x", 50_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Attach(limited(t), &Hello{Cwd: strings.Repeat("x", 500_000)}); err == nil {
		t.Error("headers of 500 kB were taken")
	}
}

// A request, and a reply, may be longer than the initial window.
func TestLongMessages(t *testing.T) {
	d := &daemon{attach: func(_ context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
		return &pb.AttachResponse{Protocol: client.Protocol, Build: r.GetCwd()}, nil
	}}
	path, _ := serve(t, d, grpc.InitialWindowSize(70_000), grpc.InitialConnWindowSize(80_000))
	c := Daemon(path)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			long := strings.Repeat(string(rune('a'+i)), 900_000+i)
			w, err := c.Attach(limited(t), &Hello{Cwd: long})
			if err != nil || w.Build != long {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	var got *Status
	if _, err := c.Attach(limited(t), &Hello{Cwd: strings.Repeat("x", maxReply+1)}); !errors.As(err, &got) || got.Code != codeInternal {
		t.Errorf("of an answer that is too long it says %v", err)
	}
	if w, err := c.Attach(limited(t), &Hello{Cwd: "short"}); err != nil || w.Build != "short" {
		t.Errorf("and then %v", err)
	}
}

func TestDaemonIsSlowOrGoes(t *testing.T) {
	entered, release := make(chan struct{}, 8), make(chan struct{})
	d := &daemon{attach: func(ctx context.Context, r *pb.AttachRequest) (*pb.AttachResponse, error) {
		entered <- struct{}{}
		select {
		case <-release:
			return &pb.AttachResponse{Protocol: client.Protocol}, nil
		case <-ctx.Done():
			entered <- struct{}{}
			return nil, ctx.Err()
		}
	}}
	t.Run("one that takes too long is left", func(t *testing.T) {
		path, _ := serve(t, d)
		c := Daemon(path)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := c.Attach(ctx, &Hello{})
			done <- err
		}()
		<-entered
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it says %v", err)
		}
		<-entered // the call has arrived
		if err := c.Signal(limited(t), "a", 1); err != nil {
			t.Errorf("and then %v", err)
		}
	})
	t.Run("one that dies", func(t *testing.T) {
		path, server := serve(t, d)
		c := Daemon(path)
		done := make(chan error)
		go func() {
			_, err := c.Attach(limited(t), &Hello{})
			done <- err
		}()
		<-entered
		server.Stop()
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("it says %v", err)
		}
		if err := c.Signal(limited(t), "a", 1); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("and then %v", err)
		}
		<-entered
	})
	t.Run("one that ends answers first", func(t *testing.T) {
		path, server := serve(t, d)
		c := Daemon(path)
		done := make(chan error)
		go func() {
			_, err := c.Attach(limited(t), &Hello{Cwd: strings.Repeat("x", 300_000)})
			done <- err
		}()
		<-entered
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			server.GracefulStop()
		}()
		for c.Signal(limited(t), "a", 1) == nil {
			time.Sleep(time.Millisecond)
		}
		close(release)
		if err := <-done; err != nil {
			t.Errorf("it says %v", err)
		}
		<-stopped
	})
}

// A PING from the daemon during a call is answered.
func TestPing(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _, _ = exchange(context.Background(), ours, service+"Attach", nil) }()
	frames := frameReader{r: theirs}
	if _, err := io.ReadFull(theirs, make([]byte, len(preface))); err != nil {
		t.Fatal(err)
	}
	expect := func(kind, flags byte, payload string) {
		t.Helper()
		var f frame
		if err := frames.next(&f); err != nil || f.kind != kind || f.flags != flags || payload != "" && string(f.payload) != payload {
			t.Fatalf("frame %+v, %v; want kind %d, flags %d, %q", f, err, kind, flags, payload)
		}
	}
	say := func(kind, flags byte, payload string) {
		t.Helper()
		if _, err := theirs.Write(appendFrame(nil, kind, flags, 0, []byte(payload))); err != nil {
			t.Fatal(err)
		}
	}
	expect(frameSettings, 0, "")
	expect(frameHeaders, flagEndHeaders, "")
	expect(frameData, flagEndStream, "")
	say(frameSettings, 0, "")
	expect(frameSettings, flagAck, "")
	say(framePing, 0, "are you?")
	expect(framePing, flagAck, "are you?")
	say(framePing, flagAck, "thanks. ")
	say(framePing, 0, "and now?")
	expect(framePing, flagAck, "and now?")
}

// Whatever the peer sends, the call ends with an error, without a panic and without waiting
// forever.
func TestNotHTTP2(t *testing.T) {
	for _, said := range []string{
		"", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00",
		"\x00\x00\x00\x06\x00\x00\x00\x00\x00", "\xff\xff\xff\x04\x00\x00\x00\x00\x00",
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x00\x00\x00\x01\xff",
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x08\x00\x00\x00\x01\x09",
	} {
		if err := overheard([]byte(said)); err == nil {
			t.Errorf("of %q it says nothing", said)
		}
	}
	if err := overheard([]byte(nil)); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// overheard returns the error of a call to a peer that sends b, whatever the request, and
// closes.
func overheard(b []byte) error {
	ours, theirs := net.Pipe()
	var all sync.WaitGroup
	all.Go(func() {
		defer theirs.Close()
		head := make([]byte, len(preface)+9+12)
		if _, err := theirs.Read(head); err == nil {
			all.Go(func() { _, _ = bytes.NewBuffer(nil).ReadFrom(theirs) }) // until it is closed
			_, _ = theirs.Write(b)
		}
	})
	_, err := exchange(context.Background(), ours, service+"Attach", make([]byte, 100_000))
	_ = ours.Close()
	all.Wait()
	return err
}

func FuzzPeer(f *testing.F) {
	answer := appendFrame(nil, frameSettings, 0, 0, []byte{0, settingInitialWindow, 0, 1, 0, 0})
	f.Add(answer)
	answer = appendFrame(answer, frameHeaders, flagEndHeaders, 1, requestHeaders(context.Background(), "/"))
	answer = appendFrame(answer, frameData, 0, 1, []byte{0, 0, 0, 0, 1, 'x'})
	answer = appendFrame(answer, frameData, flagPadded, 1, []byte{2, 'x', 0, 0})
	answer = appendFrame(answer, frameHeaders, flagEndStream, 1, nil)
	answer = appendFrame(answer, frameContinuation, flagEndHeaders, 1, []byte("\x40\x0bgrpc-status\x010"))
	f.Add(answer)
	answer = appendFrame(answer, framePing, 0, 0, make([]byte, 8))
	answer = appendNumber(answer, frameWindowUpdate, 0, 1000)
	answer = appendNumber(answer, frameReset, 1, 8)
	f.Add(appendFrame(answer, frameGoAway, 0, 0, make([]byte, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = overheard(b)
	})
}

func FuzzWelcome(f *testing.F) {
	for _, m := range []*pb.AttachResponse{
		{Protocol: client.Protocol, Start: true, Reattach: durationpb.New(time.Second)}, {Protocol: 2, Build: "r"},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeWelcome(b)
		var want pb.AttachResponse
		if proto.Unmarshal(b, &want) != nil || err != nil {
			return // our parser checks less, for example not for invalid UTF-8
		}
		if got.Start != want.GetStart() || got.RawStderr != want.GetRawStderr() || got.Build != want.GetBuild() {
			t.Errorf("it reads %v, and it says %v", got, &want)
		}
	})
}
