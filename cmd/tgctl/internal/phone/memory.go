package phone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/secret"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// memory is the file that remembers across restarts what was sent, and up to where answers were read. It is
// locked for one process.
type memory struct {
	path string
	lock *os.File

	mu   sync.Mutex // guards the field below and the file
	kept memoryFile
}

// memoryFile is the format of the file.
type memoryFile struct {
	V      int    `json:"v"`
	Topic  string `json:"topic"`          // that of Sent and Since; another one means that they say nothing
	Since  string `json:"since"`          // id of the last answer that was handled
	Posted []sent `json:"sent,omitempty"` // questions that may be on the phone
}

// sent is a question that may be on the phone.
type sent struct {
	ID      string `json:"id"`
	Subject []byte `json:"subject"`
	Shown   string `json:"shown,omitempty"` // digest of the message sent last; empty if none was for sure
}

const memoryVersion = 1

// fromTheFirst is the position of a stream that has all messages that the server has kept.
const fromTheFirst = "all"

// remember opens the memory of this user's phone. What it has of other topics than that of s is forgotten.
func remember(paths sock.Paths, s *settings) (*memory, error) {
	dir := filepath.Join(paths.State, "phone")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder for what was sent to the phone: %w", err)
	}
	m := &memory{path: filepath.Join(dir, "sent.json")}
	var err error
	if m.lock, err = secret.Lock(m.path + ".lock"); err != nil {
		if errors.Is(err, secret.ErrLocked) {
			return nil, &ui.HintError{
				Err:  errors.New("another `tgctl notify --via ntfy` already runs"),
				Hint: "Stop it first. Under systemd: systemctl --user stop tgctl-phone",
			}
		}
		return nil, fmt.Errorf("lock the list of what was sent to the phone: %w", err)
	}
	text, err := os.ReadFile(m.path)
	if err == nil {
		err = json.Unmarshal(text, &m.kept)
	}
	if err == nil && m.kept.V != memoryVersion {
		err = fmt.Errorf("version %d is not supported, only %d", m.kept.V, memoryVersion)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.close()
		return nil, &ui.HintError{
			Err:  fmt.Errorf("read the list of what was sent to the phone: %s: %w", m.path, err),
			Hint: "If you remove the file, waiting questions are sent again.",
		}
	}
	if m.kept.Topic != s.Topic {
		m.kept = memoryFile{V: memoryVersion, Topic: s.Topic, Since: fromTheFirst}
	}
	return m, nil
}

// since returns the id of the last answer that was handled.
func (m *memory) since() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept.Since
}

// handled remembers that the answer with an id was handled; across restarts only if lasting.
func (m *memory) handled(id string, lasting bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept.Since = id; !lasting {
		return nil
	}
	return m.write()
}

// keep remembers which questions may be on the phone. When it returns they survive a power failure.
func (m *memory) keep(all []sent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.Posted = all
	return m.write()
}

func (m *memory) write() error {
	text, err := json.Marshal(m.kept)
	if err == nil {
		err = secret.WriteFile(m.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the list of what was sent to the phone: %w", err)
	}
	return nil
}

func (m *memory) close() { m.lock.Close() }
