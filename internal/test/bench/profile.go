package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/thoughtgate/thoughtgated/client"
)

// profile starts a CPU profile of the daemon and returns a function that ends it and writes the
// file. It must be called before a tg-shim is started: whoever has started one is an agent,
// which the daemon does not permit to profile it.
func (h *fixture) profile(path string) (func() error, error) {
	c, err := client.Dial(context.Background(), client.WithSocket(h.control()))
	if err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		c.Close()
		return nil, err
	}
	begun := &begun{File: f, first: make(chan struct{})}
	enough, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- c.Profile(context.Background(), "cpu", enough, begun) }()
	stop := func() error {
		close(enough)
		err := <-ended
		c.Close()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	}
	select {
	case <-begun.first:
		return stop, nil
	case err := <-ended:
		c.Close()
		f.Close()
		return nil, fmt.Errorf("profile: %w", err)
	}
}

// heap writes a heap profile of the daemon, after a collection.
func (h *fixture) heap(path string) error {
	c, err := client.Dial(context.Background(), client.WithSocket(h.control()))
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	enough := make(chan struct{})
	close(enough)
	err = c.Profile(context.Background(), "heap", enough, f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("heap profile: %w", err)
	}
	return nil
}

// begun is a file that closes first at its first write.
type begun struct {
	*os.File
	once  sync.Once
	first chan struct{}
}

func (b *begun) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.first) })
	return b.File.Write(p)
}
