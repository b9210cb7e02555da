package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RoomToRecord is how many bytes a disk needs so that the daemon can record for a while.
const RoomToRecord = 64 << 20

// FolderTrouble says why nothing can be written to a folder, and how to fix that. It returns "" if
// the folder is fine. For a missing folder it checks the nearest existing parent, where it would
// be created. writable and space are [Writable] and [SpaceAt], except in tests.
func FolderTrouble(dir string, writable func(dir string) error, space func(path string) (Space, error)) string {
	at := dir
	for {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	made := ""
	if at != dir {
		made = ", where " + dir + " would be created"
	}
	if err := writable(at); err != nil {
		return fmt.Sprintf("can't write to %s%s: %v; make it writable for its owner", at, made, err)
	}
	if room, err := space(at); err == nil && (room.Free < RoomToRecord || room.Files == 0) {
		return fmt.Sprintf("the disk of %s is full or almost full (%d MB are free%s); free space there", at, room.Free>>20, made)
	}
	return ""
}
