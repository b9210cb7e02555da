package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A strict connection ends at the first invalid message, and delivers what arrived before
// it.
func TestStrict(t *testing.T) {
	ask := func(c *Conn) <-chan error {
		answered := make(chan error, 1)
		go func() {
			_, err := c.Call(context.Background(), "x", nil)
			answered <- err
		}()
		return answered
	}
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, test := range []struct {
		name string
		says []string
		want error
	}{
		{"garbage", []string{answer, `{"jsonrpc":"2.0","id":`}, errNoMessage},
		{"an answer to nothing", []string{answer, `{"jsonrpc":"2.0","id":7,"result":{}}`}, errStray},
		{"an answer twice", []string{answer, answer}, errStray},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkLeaks(t)
			c, p, ended := newPeer(t, Options{Strict: true})
			answered := ask(c)
			p.read()
			for _, line := range test.says {
				p.write(line)
			}
			if err := <-answered; err != nil {
				t.Errorf("what came before: %v", err)
			}
			if err := <-ended; !errors.Is(err, test.want) {
				t.Errorf("ended with %v, want %v", err, test.want)
			}
			if _, err := c.Call(t.Context(), "x", nil); !errors.Is(err, ErrClosed) {
				t.Errorf("a call after it: %v", err)
			}
		})
	}
}

// An answer to a canceled request is late and allowed; a second one is not.
func TestStrictAndLate(t *testing.T) {
	checkLeaks(t)
	c, p, ended := newPeer(t, Options{Strict: true})
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, "x", nil)
			done <- err
		}()
		p.read()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if cancelled := p.read(); !strings.Contains(cancelled, "notifications/cancelled") {
			t.Fatalf("got %s", cancelled)
		}
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+1))
	}
	p.write(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	if err := <-ended; !errors.Is(err, errStray) {
		t.Errorf("ended with %v, want %v", err, errStray)
	}
}
