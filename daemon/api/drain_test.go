package api

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// slow answers when it is released.
type slow struct {
	grpc_health_v1.UnimplementedHealthServer
	begun  chan struct{}
	answer chan struct{}
}

func (s *slow) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.begun <- struct{}{}
	<-s.answer
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// quietServer serves slow on its own socket.
func quietServer(t *testing.T) (path string, service *slow, server *grpc.Server, l *quietListener) {
	t.Helper()
	dir := tempdir.New(t, "", "tg")
	path = filepath.Join(dir, "x.sock")
	inner, err := sock.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	inner.SetUnlinkOnClose(false) // like a socket of the service manager, on which others wait
	l = quietly(sock.Checked(inner))
	service = &slow{begun: make(chan struct{}, 8), answer: make(chan struct{})}
	server = grpc.NewServer(grpc.Creds(peerCredentials{}), grpc.WaitForHandlers(true))
	grpc_health_v1.RegisterHealthServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	return path, service, server, l
}

func ask(t *testing.T, path string) (call func() error) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
}

// Calls under way finish, and drain waits for them.
func TestDrainAnswersWhatIsUnderWay(t *testing.T) {
	path, service, server, l := quietServer(t)
	var wg sync.WaitGroup
	answers := make(chan error, 3)
	for range cap(answers) {
		call := ask(t, path)
		wg.Go(func() { answers <- call() })
		<-service.begun
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(server, l, time.Minute)
	}()
	<-l.hushed
	close(service.answer)
	<-drained
	wg.Wait()
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Errorf("a call that was under way: %v", err)
		}
	}
}

// A call that does not end is cut off: drain does not wait forever.
func TestDrainHasALimit(t *testing.T) {
	path, service, server, l := quietServer(t)
	call, answer := ask(t, path), make(chan error, 1)
	go func() { answer <- call() }()
	<-service.begun
	drained := make(chan struct{})
	go func() { // ends with the call
		defer close(drained)
		drain(server, l, drainLimit)
	}()
	select { // the handler hangs meanwhile
	case err := <-answer:
		if err == nil {
			t.Error("the call was answered after the limit")
		}
	case <-time.After(time.Minute):
		t.Error("nothing limits how long it takes")
	}
	close(service.answer)
	<-drained
}

// After quiet, a new connection is neither accepted nor dropped while somebody holds the socket.
func TestQuietListenerTakesNothingMore(t *testing.T) {
	path, _, _, l := quietServer(t)
	l.quiet()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection after the hush: %v, want that nothing happens", err)
	}
}

// At the end of the server a standing stream fails with an error by which its client looks for the
// next daemon. A stream that ended by itself does not.
func TestStandingStreams(t *testing.T) {
	s := New(Config{AgentHooks: hook.New(hook.Options{})})
	if err := s.standing(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("one that ends by itself: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.standing(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	s.Close()
	if err := client.FromStatus(toStatus(<-ended)); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("one that the end of the server ended: %v, want %v", err, client.ErrNotRunning)
	}
}
