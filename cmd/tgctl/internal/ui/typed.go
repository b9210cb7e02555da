package ui

import (
	"bufio"
	"context"
	"errors"
	"io"
)

// ReadTyped reads a line that a person types. A read from a terminal cannot be interrupted, so
// when ctx ends, the reading goroutine is left to end with the program.
func (a *App) ReadTyped(ctx context.Context) (string, error) {
	type reply struct {
		line string
		err  error
	}
	replies := make(chan reply, 1)
	go func() {
		line, err := bufio.NewReader(a.In).ReadString('\n')
		replies <- reply{line, err}
	}()
	select {
	case r := <-replies:
		if errors.Is(r.err, io.EOF) {
			return "", errors.New("standard input ended before an answer was typed")
		}
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
