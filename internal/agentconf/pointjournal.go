package agentconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// pointJournal is what is left to do when the session of a [Pointing] is over:
// its folder goes, and what is in it. There is one for each file that servers
// came from, which stays as it is.
type pointJournal struct {
	Version int    `json:"pointed"`
	Agent   string `json:"agent"`
	Path    string `json:"path"`   // the agent's own file
	Folder  string `json:"folder"` // of the session
	Session string `json:"session"`
}

// pointVersion is raised when an older program could not do what a newer journal
// asks for.
const pointVersion = 1

func (j *pointJournal) text() ([]byte, error) { return json.Marshal(j) }

// parsePointed reads the journal of a [Pointing], nil when it is another's. What
// it names was said by a client, so that no folder is taken but one that is
// called as the session is.
func parsePointed(text []byte) (*pointJournal, error) {
	var j pointJournal
	if err := json.Unmarshal(text, &j); err != nil || j.Version == 0 {
		return nil, nil // whoever reads it next will say so
	}
	if j.Version != pointVersion {
		return nil, fmt.Errorf("read journal: it has version %d, and this program knows %d only", j.Version, pointVersion)
	}
	if !filepath.IsAbs(j.Folder) || j.Session == "" || filepath.Base(j.Folder) != j.Session || strings.Trim(j.Session, "0123456789abcdef") != "" {
		return nil, errors.New("read journal: it names no folder of a session")
	}
	return &j, nil
}

func (j *pointJournal) lockPath() string { return filepath.Join(j.Folder, pointLockName) }

func (j *pointJournal) paths() []string {
	return []string{j.Path, j.Folder, filepath.Join(j.Folder, copyName)}
}

func (j *pointJournal) settled() bool {
	_, err := os.Lstat(j.Folder)
	return errors.Is(err, fs.ErrNotExist)
}

// take takes the lock. Giving it up removes the folder.
func (j *pointJournal) take() (*fileLock, error) {
	l, err := takeLockOnce(j.lockPath(), j.Folder, holder{Session: j.Session, Brief: true})
	if err == nil {
		l.folder = j.Folder
	}
	return l, err
}

func (j *pointJournal) restore(func(string)) (Report, error) {
	return Report{State: Untouched}, removeCopy(j.Folder)
}

// removeCopy removes the copy from a session's folder, and nothing else.
func removeCopy(folder string) error {
	if err := os.Remove(filepath.Join(folder, copyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the copy of the session: %w", err)
	}
	return nil
}

// SweepPointed removes what killed sessions left in parent, the folder for the
// folders of sessions, and returns which. Those that live hold their locks.
func SweepPointed(parent string) (removed []string) {
	folders, _ := os.ReadDir(parent)
	for _, f := range folders {
		j := &pointJournal{Folder: filepath.Join(parent, f.Name()), Session: f.Name()}
		if _, err := os.Lstat(j.lockPath()); err != nil {
			continue // it is just being made
		}
		unlock, held, err := tryLock(j)
		if err != nil || held {
			continue
		}
		if removeCopy(j.Folder) == nil {
			removed = append(removed, j.Folder)
		}
		unlock()
	}
	return removed
}
