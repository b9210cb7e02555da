package main

import (
	"io"
	"syscall"
)

// A pipe holds 64 KiB, so that who writes a long line and who reads it wait for one
// another a hundred times. While such a line goes through it a pipe is made as wide
// as the system lets it be. Not for longer: what all pipes of a person hold together
// has a bound, past which new ones are narrow.

// long is from what length on a line is worth it, and is not copied, in bytes.
const long = 256 << 10

// width makes a pipe wide, and as it was. It is for one goroutine at a time.
type width struct {
	pipe  syscall.RawConn // nil for what is none
	usual int             // bytes that it held; 0 while it is not wider
}

// widthOf returns the width of what f writes to or reads from.
func widthOf(f any) width {
	if pipe, ok := f.(syscall.Conn); ok {
		if raw, err := pipe.SyscallConn(); err == nil {
			return width{pipe: raw}
		}
	}
	return width{}
}

// set makes the pipe wide, or as it was. Where that can't be done, as when it holds
// too much still, it stays as it is.
func (w *width) set(wide bool) {
	if w.pipe == nil || wide == (w.usual > 0) {
		return
	}
	_ = w.pipe.Control(func(fd uintptr) { // it fails when the pipe was closed
		if wide {
			w.usual = widen(fd)
		} else if narrow(fd, w.usual) {
			w.usual = 0
		}
	})
}

// source is a reader that is asked for much while a long line is read.
type source struct {
	io.Reader
	width width
}

func (s *source) Read(b []byte) (int, error) {
	s.width.set(len(b) > long)
	return s.Reader.Read(b)
}
