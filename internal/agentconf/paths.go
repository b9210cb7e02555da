package agentconf

import "path/filepath"

// JournalPaths returns every file that a journal is about: the configuration
// as the agent knows it and where its links lead, the backup, and the lock.
func JournalPaths(journal []byte) ([]string, error) {
	if p, err := parsePointed(journal); err != nil {
		return nil, err
	} else if p != nil {
		return []string{p.Path, p.Folder, filepath.Join(p.Folder, copyName)}, nil
	}
	j, err := parseJournal(journal)
	if err != nil {
		return nil, err
	}
	return []string{j.Path, j.Target, j.Backup, j.Lock}, nil
}
