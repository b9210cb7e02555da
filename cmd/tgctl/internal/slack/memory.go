package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// message is what is remembered of a question's message across restarts.
type message struct {
	ID       string `json:"id"`
	Subject  string `json:"subject"` // hex
	Workflow string `json:"workflow"`
	Asked    string `json:"asked"`             // the channel as the configuration names it
	Channel  string `json:"channel,omitempty"` // the channel's id on Slack
	TS       string `json:"ts,omitempty"`      // Slack's id of the message; empty if it was about to be posted
	Thread   string `json:"thread,omitempty"`
	Shown    string `json:"shown,omitempty"` // digest of the message sent last
}

// memory is the file that remembers messages, locked for one process. The app's mutex guards
// it.
type memory struct {
	path string
	lock *os.File
	kept []message // the file's content when it was opened
}

// memoryFile is the format of the file.
type memoryFile struct {
	V        int       `json:"v"`
	Messages []message `json:"messages"`
}

// remember opens the memory of one Slack app in dir, which it creates.
func remember(dir, app string) (*memory, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder for posted messages: %w", err)
	}
	m := &memory{path: filepath.Join(dir, filepath.Base(app)+".json")}
	lock, err := secret.Lock(m.path + ".lock")
	if errors.Is(err, secret.ErrLocked) {
		return nil, &Problem{
			Err:  errors.New("another `tgctl slack` already uses this Slack app"),
			Hint: "Stop it first. Under systemd: systemctl --user status tgctl-slack",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the list of posted messages: %w", err)
	}
	m.lock = lock
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	var file memoryFile
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err == nil && file.V != 1 {
		err = fmt.Errorf("version %d is not supported, only 1", file.V)
	}
	if err != nil {
		m.close()
		return nil, &Problem{
			Err:  fmt.Errorf("read the list of posted messages: %s: %w", m.path, err),
			Hint: "If you remove the file, waiting questions are posted again.",
		}
	}
	m.kept = file.Messages
	return m, nil
}

// keep writes all messages to the file. When it returns they survive a power failure.
func (m *memory) keep(all []message) error {
	err := m.write(all)
	if err != nil {
		err = fmt.Errorf("write the list of posted messages: %w", err)
	}
	return err
}

func (m *memory) write(all []message) error {
	text, err := json.Marshal(memoryFile{1, all})
	if err != nil {
		return err
	}
	return secret.WriteFile(m.path, append(text, '\n'))
}

// close releases the lock. A nil memory may be closed.
func (m *memory) close() {
	if m != nil {
		m.lock.Close()
	}
}
