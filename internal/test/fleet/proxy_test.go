package fleet

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy stands between devices and the engine. It can end their connections, and hold
// their bytes back.
type proxy struct {
	net.Listener
	to      string
	stalled atomic.Int64 // Unix nanoseconds until which nothing is forwarded

	mu    sync.Mutex
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{Listener: l, to: to, conns: map[net.Conn]bool{}}
	p.wait.Go(p.serve)
	return p, nil
}

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() {
			defer in.Close()
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				return
			}
			p.keep(in, out, true)
			defer p.keep(in, out, false)
			var both sync.WaitGroup
			both.Go(func() { p.forward(out, in) })
			both.Go(func() { p.forward(in, out) })
			both.Wait()
		})
	}
}

func (p *proxy) keep(in, out net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{in, out} {
		if on {
			p.conns[c] = true
		} else {
			delete(p.conns, c)
		}
	}
}

// forward copies until either end is closed. What it has read before a stall is forwarded
// after it, like packets that were on their way.
func (p *proxy) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if until := time.Until(time.Unix(0, p.stalled.Load())); until > 0 {
			time.Sleep(until)
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err == io.EOF || err != nil {
			return
		}
	}
}

// cut ends the connections, each with that probability.
func (p *proxy) cut(r *rand.Rand, share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if r.Float64() < share {
			c.Close()
		}
	}
}

// stall holds everything back for a while.
func (p *proxy) stall(d time.Duration) { p.stalled.Store(time.Now().Add(d).UnixNano()) }

func (p *proxy) close() {
	p.Close()
	p.cut(rand.New(rand.NewPCG(0, 0)), 1)
	p.wait.Wait()
}
