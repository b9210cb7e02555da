package client

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// BuildHeader names the header in which the daemon says with each answer which
// build it is. Its values may be any bytes.
const BuildHeader = "thoughtgate-build-bin"

// dialOptions are what the options ask of the connection.
func (o *options) dialOptions() []grpc.DialOption {
	if o.heard == nil {
		return nil
	}
	l := &listener{tell: o.heard}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// listener looks for the daemon's build in what it answers.
type listener struct {
	tell func(build string)

	mu   sync.Mutex
	last string // that was told
}

func (l *listener) hear(header metadata.MD) {
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

func (l *listener) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var header metadata.MD
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Header(&header))...)
	l.hear(header)
	return err
}

func (l *listener) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &heardStream{ClientStream: s, l: l}, nil
}

// heardStream tells of the header that comes before the first message.
type heardStream struct {
	grpc.ClientStream
	l    *listener
	once sync.Once
}

// RecvMsg reads the next message.
func (s *heardStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.once.Do(func() {
		if header, herr := s.Header(); herr == nil { // it has come with the message, or the end
			s.l.hear(header)
		}
	})
	return err
}
