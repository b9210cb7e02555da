package extension

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// ErrEnded reports that the connection ended before the gate answered a request.
var ErrEnded = errors.New("the gate has ended the conversation")

const (
	codeUnknown  = -32601
	codeInternal = -32603
)

// server is one connection to the gate.
type server struct {
	handler Handler
	host    *Host
	out     *wire.Writer
	work    sync.WaitGroup // for the handlers

	mu      sync.Mutex // guards the fields below
	last    uint64     // number of the last request to the gate
	waiting map[uint64]chan<- *pb.Frame
	running map[uint64]context.CancelFunc // by the id of the gate's request
	tasks   uint64
	ended   bool
}

func newServer(h Handler, out io.Writer) *server {
	s := &server{handler: h, out: wire.NewWriter(out, wire.Length32{}), waiting: map[uint64]chan<- *pb.Frame{}, running: map[uint64]context.CancelFunc{}}
	s.host = &Host{server: s}
	return s
}

// read handles frames of the gate until the connection ends.
func (s *server) read(ctx context.Context, in io.Reader) error {
	frames := wire.Length32{}.NewReader(in, wire.MaxMessage)
	for {
		var line wire.Line
		if err := frames.Next(&line); err != nil {
			if err == io.EOF || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read from the gate: %w", err)
		}
		f := new(pb.Frame)
		if err := proto.Unmarshal(line.Data, f); err != nil {
			return fmt.Errorf("read from the gate: %w", err)
		}
		s.handleFrame(ctx, f)
	}
}

// handleFrame handles one frame. It starts a goroutine for anything that takes time.
func (s *server) handleFrame(ctx context.Context, f *pb.Frame) {
	switch said := f.Body.(type) {
	case *pb.Frame_Cancel:
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.running[said.Cancel.Id]; cancel != nil {
			cancel()
		}
	case *pb.Frame_ConfigChanged:
		key, value := said.ConfigChanged.Key, said.ConfigChanged.GetValue()
		s.host.changed(key, said.ConfigChanged.Value)
		if s.handler.ConfigChanged != nil {
			s.handler.ConfigChanged(key, value)
		}
	default:
		s.mu.Lock()
		waits := s.waiting[f.Id]
		delete(s.waiting, f.Id)
		if waits == nil && f.Id != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			s.running[f.Id] = cancel
		}
		s.mu.Unlock()
		if waits != nil {
			waits <- f
		} else if f.Id != 0 {
			s.work.Go(func() { s.answer(ctx, f) })
		}
	}
}

// answer answers one request of the gate.
func (s *server) answer(ctx context.Context, f *pb.Frame) {
	reply := &pb.Frame{Id: f.Id}
	err := s.handle(ctx, f, reply)
	taken := ctx.Err() != nil
	s.mu.Lock()
	s.running[f.Id]()
	delete(s.running, f.Id)
	s.mu.Unlock()
	if taken {
		return // the request was cancelled
	}
	if err == nil {
		err = s.send(reply)
	}
	if err != nil {
		code := int64(codeInternal)
		if errors.Is(err, errNotOffered) {
			code = codeUnknown
		}
		// If this can't be sent either, the gate has ended.
		_ = s.send(&pb.Frame{Id: f.Id, Body: &pb.Frame_Error{Error: &pb.Error{Code: code, Message: err.Error()}}})
	}
}

func (s *server) send(f *pb.Frame) error {
	frame, err := proto.Marshal(f)
	if err != nil {
		return fmt.Errorf("write to the gate: %w", err)
	}
	if len(frame) > wire.MaxMessage {
		return fmt.Errorf("write to the gate: %d bytes; the most is %d", len(frame), wire.MaxMessage)
	}
	return s.out.Write(frame)
}

// ask sends a request to the gate and waits for the answer. number is that of the field that is
// set in f.
func (s *server) ask(ctx context.Context, number uint64, f *pb.Frame) (*pb.Frame, error) {
	answered := make(chan *pb.Frame, 1)
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil, ErrEnded
	}
	s.last++
	f.Id = s.last<<8 | number
	s.waiting[f.Id] = answered
	s.mu.Unlock()
	if err := s.send(f); err != nil {
		s.forget(f.Id)
		return nil, err
	}
	select {
	case answer := <-answered:
		switch {
		case answer == nil:
			return nil, ErrEnded
		case answer.GetError() != nil:
			return nil, &Error{Code: answer.GetError().Code, Message: answer.GetError().Message}
		}
		return answer, nil
	case <-ctx.Done():
		if s.forget(f.Id) {
			_ = s.send(&pb.Frame{Body: &pb.Frame_Cancel{Cancel: &pb.Cancel{Id: f.Id}}})
		}
		return nil, context.Cause(ctx)
	}
}

// forget removes the request id and reports whether it was still pending.
func (s *server) forget(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waited := s.waiting[id]
	delete(s.waiting, id)
	return waited
}

// failPendingRequests fails all pending requests.
func (s *server) failPendingRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for id, waits := range s.waiting {
		delete(s.waiting, id)
		close(waits)
	}
}
