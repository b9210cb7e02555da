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

// maxLogBytes is how many bytes are read from the end of a log file.
const maxLogBytes = 1 << 20

// Errors returns the errors in a log, oldest first. A missing log file has no errors.
func Errors(ctx context.Context, l Log) ([]string, error) {
	if l.Service {
		return journal(ctx, l.Since)
	}
	text, err := Tail(l.File, 0, maxLogBytes)
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

// Tail returns a file's content from offset from to the end, but at most the last most bytes.
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

// journalMost is how many of the newest journal entries are read.
const journalMost = "10000"

// journal returns the errors about the daemon's unit in the journal, including systemd's own.
func journal(ctx context.Context, since time.Time) ([]string, error) {
	out, err := exec.CommandContext(ctx, "journalctl", "--user", "--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE,PRIORITY",
		"--lines="+journalMost, "--unit="+unit, "--since=@"+strconv.FormatInt(since.Unix(), 10)).Output()
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var all []string
	for line := range bytes.Lines(out) {
		var entry struct {
			Message  any    `json:"MESSAGE"` // a list of numbers if the message is not UTF-8
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

// saidAsError returns the message of a JSON line of slog, or "" if its level is not error.
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

// unit is the daemon's systemd unit.
const unit = "thoughtgated.service"

// errorIn returns the text of a log file line if it is an error logged at or after since, and
// "" otherwise. The line has the format of slog's text handler.
func errorIn(line string, since time.Time) string {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "timestamp="), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	said, isError := strings.CutPrefix(rest, "level=error ")
	if err != nil || at.Before(since) || !isError {
		return ""
	}
	return said
}
