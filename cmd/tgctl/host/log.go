package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// logMost is how much of the end of a log file is read, in bytes.
const logMost = 1 << 20

// Errors returns the lines of a log that are errors, oldest first. A file that is
// not there has none.
func Errors(ctx context.Context, l Log) ([]string, error) {
	if l.Service {
		return journal(ctx, l.Since)
	}
	text, err := Tail(l.File, 0, logMost)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the daemon's log: %w", err)
	}
	var all []string
	for line := range bytes.Lines(text) {
		if said := errorIn(strings.TrimRight(string(line), "\n"), l.Since); said != "" {
			all = append(all, said)
		}
	}
	return all, nil
}

// Tail returns what stands in a file from an offset on, or the last most bytes of it when
// it is more.
func Tail(path string, from, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from = max(from, info.Size()-most)
	return io.ReadAll(io.NewSectionReader(f, from, max(info.Size()-from, 0)))
}

// journalMost is how many of the newest lines of the journal are looked at.
const journalMost = "10000"

// journal returns what the journal has of errors, those of systemd about the
// daemon among them.
func journal(ctx context.Context, since time.Time) ([]string, error) {
	out, err := exec.CommandContext(ctx, "journalctl", "--user", "--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE,PRIORITY",
		"--lines="+journalMost, "--unit="+unit, "--since=@"+strconv.FormatInt(since.Unix(), 10)).Output()
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var all []string
	for line := range bytes.Lines(out) {
		var entry struct {
			Message  any    `json:"MESSAGE"` // a list of numbers where it is no text
			Priority string `json:"PRIORITY"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		text, _ := entry.Message.(string)
		if said := saidAsError(text); said != "" {
			all = append(all, said)
		} else if slices.Contains([]string{"0", "1", "2", "3"}, entry.Priority) {
			all = append(all, text)
		}
	}
	return all, nil
}

// saidAsError is what a line of slog's JSON says, empty unless that is an error.
func saidAsError(text string) string {
	var line struct{ Level, Msg, Err string }
	if json.Unmarshal([]byte(text), &line) != nil || line.Level != "error" {
		return ""
	}
	if line.Err == "" {
		return line.Msg
	}
	return line.Msg + ": " + line.Err
}

// unit is what systemd knows the daemon as.
const unit = "thoughtgated.service"

// errorIn is what a line of slog's text says, as the daemon writes it into a file;
// empty unless it is an error from since on.
func errorIn(line string, since time.Time) string {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "timestamp="), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	said, isError := strings.CutPrefix(rest, "level=error ")
	if err != nil || at.Before(since) || !isError {
		return ""
	}
	return said
}
