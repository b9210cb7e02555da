package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

const (
	// hashWait is how long a call waits for the hash of a program.
	hashWait = time.Second
	// maxProgram is the size of the largest program that is hashed, in bytes.
	maxProgram = 2 << 30
	// maxPrograms is how many hashes are remembered.
	maxPrograms = 256
)

// program is the executable of an agent, with its hash once that is computed.
type program struct {
	done chan struct{} // closed when the fields below are set
	sum  string
	err  error
}

// hash returns the hex SHA-256 of the program, or "" if p is nil.
func (p *program) hash() (string, error) {
	if p == nil {
		return "", nil
	}
	select {
	case <-p.done:
		return p.sum, p.err
	default:
	}
	timer := time.NewTimer(hashWait)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.sum, p.err
	case <-timer.C:
		return "", errHashing
	}
}

// errHashing is the error while the hash is not computed yet.
var errHashing = errors.New("the SHA-256 of the agent's program is still being computed; repeat the call")

// file identifies a program on disk. A changed file has another change time, even if its owner sets
// the modification time.
type file struct {
	path     string
	dev, ino uint64
	size     int64
	modified unix.Timespec
	changed  unix.Timespec
}

// programs computes the hash of each program once, in goroutines of its own.
type programs struct {
	ctx  context.Context // ends the goroutines
	wait sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	seen   map[file]*program
	closed bool
}

func newPrograms(ctx context.Context) *programs {
	return &programs{ctx: ctx, seen: map[file]*program{}}
}

// of returns the program that a process runs, or nil if it can't be inspected. It hashes the
// running program even if another file has taken its name.
func (ps *programs) of(p proc.Info) *program {
	f, err := proc.OpenProgram(p)
	if err != nil {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = f.Close() // nothing was written
		return nil
	}
	key := file{p.Exe, uint64(stat.Dev), uint64(stat.Ino), stat.Size, stat.Mtim, stat.Ctim}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if known := ps.seen[key]; known != nil || ps.closed {
		_ = f.Close() // nothing was written
		return known
	}
	if len(ps.seen) >= maxPrograms {
		clear(ps.seen)
	}
	one := &program{done: make(chan struct{})}
	ps.seen[key] = one
	ps.wait.Go(func() {
		one.sum, one.err = sum(ps.ctx, f)
		_ = f.Close() // nothing was written
		close(one.done)
	})
	return one
}

// sum computes the hex SHA-256 of a file. It stops when ctx ends.
func sum(ctx context.Context, f io.Reader) (string, error) {
	h := sha256.New()
	for total := int64(0); ; {
		n, err := io.CopyN(h, f, 4<<20)
		total += n
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", fmt.Errorf("read it: %w", err)
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case total > maxProgram:
			return "", fmt.Errorf("it is larger than %d bytes", int64(maxProgram))
		}
	}
}

// close waits for the goroutines, which end with ps.ctx. None is started after it.
func (ps *programs) close() {
	ps.mu.Lock()
	ps.closed = true
	ps.mu.Unlock()
	ps.wait.Wait()
}
