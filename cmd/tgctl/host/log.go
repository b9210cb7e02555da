package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
)

// logMost is how much of the end of a log file is read, in bytes.
const logMost = 1 << 20

// Errors returns the lines of a log that are errors, oldest first. A file that is
// not there has none.
func Errors(ctx context.Context, l Log) ([]string, error) {
	if l.Service {
		cmd := exec.CommandContext(ctx, "journalctl", "--user", "--quiet", "--no-pager", "--output=cat", "--priority=err",
			"--unit=thoughtgated.service", "--since=@"+fmt.Sprint(l.Since.Unix()))
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		return lines(out, func(string) bool { return true }), nil
	}
	f, err := os.Open(l.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the daemon's log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the daemon's log: %w", err)
	}
	from := max(0, info.Size()-logMost)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return nil, fmt.Errorf("read the daemon's log: %w", err)
	}
	return lines(text, func(line string) bool { return isError(line, l.Since) }), nil
}

func lines(text []byte, want func(string) bool) []string {
	var all []string
	for line := range bytes.Lines(text) {
		if line := strings.TrimRight(string(line), "\n"); line != "" && want(line) {
			all = append(all, line)
		}
	}
	return all
}

// isError reports whether a line of slog's text, as the daemon writes it into a
// file, is an error from since on.
func isError(line string, since time.Time) bool {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	return err == nil && !at.Before(since) && strings.HasPrefix(rest, "level=ERROR ")
}
