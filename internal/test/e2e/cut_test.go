package e2e

import (
	"bytes"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// cutter is a TCP proxy before a server. It can cut a connection within an answer.
type cutter struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	conns   map[net.Conn]bool
	streams int // answers to GET that have begun
	cuts    int
	marker  string // what is in the event in which the next cut is; empty for none
	place   place
}

// place is where a cut is, relative to the event with the marker.
type place int

const (
	before place = iota // the event, after the blank line of the last one
	within              // the marker
	after               // the event, and its blank line
)

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, target: target, conns: map[net.Conn]bool{}}
	c.wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.wait.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		c.mu.Lock()
		for conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		c.wait.Wait()
	})
	return c
}

func (c *cutter) url(path string) string { return "http://" + c.listener.Addr().String() + path }

// cut has the next answer with the marker cut there.
func (c *cutter) cut(marker string, p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marker, c.place = marker, p
}

func (c *cutter) count() (streams, cuts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams, c.cuts
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	c.conns[client] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, client)
	}()
	asked := make(chan bool, 64) // for each request, whether it is a GET; a client waits for the answer before the next one
	c.wait.Go(func() {
		defer server.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if bytes.Contains(buffer[:n], []byte(" HTTP/1.1\r\n")) {
				asked <- bytes.HasPrefix(buffer, []byte("GET "))
			}
			if _, err2 := server.Write(buffer[:n]); err != nil || err2 != nil {
				return
			}
		}
	})
	c.answer(client, server, asked)
}

// answer copies what the server says, up to a cut.
func (c *cutter) answer(client, server net.Conn, asked <-chan bool) {
	var all []byte
	passed := 0
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		all = append(all, buffer[:n]...)
		end, isCut := c.end(all, passed)
		if _, err2 := client.Write(all[passed:max(passed, end)]); err != nil || err2 != nil || isCut {
			return
		}
		passed = len(all)
		if bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 ")) && <-asked && bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 200")) {
			c.mu.Lock()
			c.streams++
			c.mu.Unlock()
		}
	}
}

// end returns up to where all may pass, of which some has passed, and whether the connection is cut there.
func (c *cutter) end(all []byte, passed int) (end int, isCut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := max(0, passed-len(c.marker))
	at := bytes.Index(all[from:], []byte(c.marker)) + from
	if c.marker == "" || at < from {
		return len(all), false
	}
	switch c.place {
	case before:
		at = bytes.LastIndex(all[:at], []byte("\n\n")) + 2
	case within:
		at += len(c.marker) / 2
	case after:
		blank := bytes.Index(all[at:], []byte("\n\n"))
		if blank < 0 {
			return len(all), false
		}
		at += blank + 2
	}
	c.marker = ""
	c.cuts++
	return at, true
}

// behindCutter returns a cutter before a server of the test.
func behindCutter(t *testing.T, s *httptest.Server) *cutter {
	t.Helper()
	t.Cleanup(s.Close)
	return newCutter(t, strings.TrimPrefix(s.URL, "http://"))
}
