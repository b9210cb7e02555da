package tuf

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
)

// TimestampFile is the only file of a directory that changes.
const TimestampFile = "timestamp.json"

// RootFile returns the name of a root of a version.
func RootFile(version uint64) string { return versioned(version, roleRoot) }

func versioned(version uint64, role string) string {
	return strconv.FormatUint(version, 10) + "." + role + ".json"
}

// targetFile returns the name of a target with the SHA-256 sum.
func targetFile(name string, sum []byte) string {
	return path.Join(path.Dir(name), hex.EncodeToString(sum)+"."+path.Base(name))
}

// File is a file of a directory.
type File struct {
	Name    string // with / between its parts
	Content []byte
}

// Directory returns the files by which a web server hands out what was signed, as the specification
// lays them out for consistent snapshots. If they are written in this order, a client finds all that
// it is told of.
func (r *Repository) Directory() ([]File, error) {
	var files []File
	for i, raw := range r.Roots {
		files = append(files, File{RootFile(uint64(i + 1)), raw})
	}
	all := map[string][]byte{roleTargets: r.Targets}
	maps.Copy(all, r.Groups)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		is, err := readTargets(all[name])
		if err != nil {
			return nil, fmt.Errorf("read the targets of %s: %w", name, err)
		}
		for _, at := range slices.Sorted(maps.Keys(is.targets)) {
			content := r.Files[name][at]
			if err := is.targets[at].check(content); err != nil {
				return nil, fmt.Errorf("read %s: %w", at, err)
			}
			files = append(files, File{targetFile(at, is.targets[at].sum), content})
		}
		files = append(files, File{versioned(is.version, name), all[name]})
	}
	s, err := readSnapshot(r.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	return append(files, File{versioned(s.version, roleSnapshot), r.Snapshot}, File{TimestampFile, r.Timestamp}), nil
}

// TimestampVersion returns the version of a timestamp, whoever has signed it.
func TimestampVersion(raw []byte) (uint64, error) {
	t, err := readTimestamp(raw)
	if err != nil {
		return 0, err
	}
	return t.version, nil
}

// Get reads a file of a directory that has at most limit bytes. The error is fs.ErrNotExist if there is none.
type Get func(name string, limit int) ([]byte, error)

// MaxNewRoots is how many roots are fetched at once.
const MaxNewRoots = 64

// Fetch reads what a timestamp names from a directory: the roots after the version since, and what
// leads to the target of a group. It verifies nothing of it; [Trusted.Update] does.
func Fetch(get Get, timestamp []byte, since uint64, group, at string) (Update, error) {
	u := Update{Timestamp: timestamp}
	t, err := readTimestamp(timestamp)
	if err != nil {
		return u, fmt.Errorf("read the timestamp: %w", err)
	}
	for version := since + 1; version <= since+MaxNewRoots; version++ {
		root, err := get(RootFile(version), MaxRootBytes)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			_, err = readRoot(root)
		}
		if err != nil {
			return u, fmt.Errorf("read root %d: %w", version, err)
		}
		u.Roots = append(u.Roots, root)
	}
	if u.Snapshot, err = get(versioned(t.snapshot.version, roleSnapshot), MaxSnapshotBytes); err != nil {
		return u, err
	}
	s, err := readSnapshot(u.Snapshot)
	if err != nil {
		return u, fmt.Errorf("read the snapshot: %w", err)
	}
	for name, raw := range map[string]*[]byte{roleTargets: &u.Targets, group: &u.Delegated} {
		is, there := s.meta[name]
		if !there {
			return u, fmt.Errorf("the snapshot does not name %s.json", name)
		}
		if *raw, err = get(versioned(is.version, name), MaxTargetsBytes); err != nil {
			return u, err
		}
	}
	own, err := readTargets(u.Delegated)
	if err != nil {
		return u, fmt.Errorf("read the targets of %s: %w", group, err)
	}
	is, there := own.targets[at]
	if !there {
		return u, fmt.Errorf("the targets of %s do not name %s", group, at)
	}
	u.Target, err = get(targetFile(at, is.sum), MaxTargetBytes)
	return u, err
}
