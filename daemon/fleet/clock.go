package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// clock is a clock that is never set back: it returns the highest time that the machine has had,
// also before a restart. Between two looks it goes at least as far as the time that has passed.
type clock struct {
	path string
	wall func() time.Time // as the machine says it

	seen  time.Time // the highest
	at    time.Time // when seen was, by the clock that nobody can set
	saved time.Time // what is on disk
}

// clockEvery is how much time may be forgotten if the daemon is killed.
const clockEvery = 6 * time.Hour

// seenTime is the content of the file of a clock.
type seenTime struct {
	V    int   `json:"v"`    // clockVersion
	Seen int64 `json:"seen"` // Unix time
}

const (
	clockVersion = 1
	clockFile    = "clock.json"
)

// newClock returns the clock whose highest time a previous daemon has left in dir.
func newClock(dir string, wall func() time.Time) (*clock, error) {
	c := &clock{path: filepath.Join(dir, clockFile), wall: wall, at: time.Now()}
	text, err := secret.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	var is seenTime
	if err == nil {
		err = forms.Decode([]byte(text), secret.MaxFileBytes, &is)
	}
	if err == nil && is.V != clockVersion {
		err = fmt.Errorf("it has version %d; this daemon knows version %d", is.V, clockVersion)
	}
	if err != nil {
		return c, fmt.Errorf("read the highest time that this machine has had, %s: %w", c.path, err)
	}
	c.seen = time.Unix(is.Seen, 0)
	c.saved = c.seen
	return c, nil
}

// now returns the time.
func (c *clock) now() time.Time {
	at := time.Now()
	passed := c.seen.Add(at.Sub(c.at))
	c.at = at
	if c.seen = c.wall().Round(0); c.seen.Before(passed) {
		c.seen = passed
	}
	return c.seen
}

// save writes the highest time, unless that was done within clockEvery.
func (c *clock) save() error {
	if c.seen.Sub(c.saved) < clockEvery {
		return nil
	}
	if err := secret.WriteFile(c.path, forms.Encode(&seenTime{clockVersion, c.seen.Unix()})); err != nil {
		return fmt.Errorf("save the highest time that this machine has had: %w", err)
	}
	c.saved = c.seen
	return nil
}
