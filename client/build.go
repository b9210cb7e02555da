package client

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// BuildHeader is the header with which the daemon reports its build in each answer. Its values
// may be any bytes.
const BuildHeader = "thoughtgate-build-bin"

// dialOptions returns the dial options that o needs.
func (o *options) dialOptions() []grpc.DialOption {
	if o.heard == nil {
		return nil
	}
	l := &buildWatcher{tell: o.heard}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// buildWatcher reads the daemon's build from its answers.
type buildWatcher struct {
	tell func(build string)

	mu   sync.Mutex
	last string // the last build that was reported
}

func (l *buildWatcher) hear(header metadata.MD) {
	builds := header.Get(BuildHeader)
	if len(builds) == 0 {
		return
	}
	l.mu.Lock()
	news := builds[0] != l.last
	l.last = builds[0]
	l.mu.Unlock()
	if news {
		l.tell(builds[0])
	}
}

func (l *buildWatcher) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header metadata.MD
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Header(&header))...)
	l.hear(header)
	return err
}

func (l *buildWatcher) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &heardStream{ClientStream: s, l: l}, nil
}

// heardStream reads the header of a stream before its first message.
type heardStream struct {
	grpc.ClientStream
	l    *buildWatcher
	once sync.Once
}

// RecvMsg reads the next message.
func (s *heardStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.once.Do(func() {
		if header, herr := s.Header(); herr == nil { // the header has arrived with the message or the end
			s.l.hear(header)
		}
	})
	return err
}
