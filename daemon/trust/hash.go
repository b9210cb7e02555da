package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxHashed is the largest file that is read, in bytes. The largest programs
	// that servers are run by have a few hundred megabytes.
	maxHashed = 1 << 30
	// maxSums is how many digests are remembered.
	maxSums = 512
	// settled is how long a file must have been left alone before its digest is
	// remembered: clocks of file systems tick slowly, and one that was written just
	// now can be written again and look the same.
	settled = 2 * time.Second
)

// hasher digests files, each once for as long as it stays as it is. It is safe for
// concurrent use.
type hasher struct {
	mu   sync.Mutex // guards sums
	sums map[stamp]string
}

// stamp tells one state of a file from another. When its status changed last can't
// be set by whoever writes it.
type stamp struct {
	dev, ino uint64
	size     int64
	changed  int64 // its status, in nanoseconds
	modified int64 // likewise
}

// sum returns the hex SHA-256 of the regular file at path.
func (h *hasher) sum(path string) (string, error) {
	// Without O_NONBLOCK opening a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	// Nothing was written, so there is nothing that closing could lose.
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", errors.New("it is not a regular file")
	case st.Size > maxHashed:
		return "", fmt.Errorf("it has more than %d MB", maxHashed>>20)
	}
	is := stampOf(&st)
	h.mu.Lock()
	sum, ok := h.sums[is]
	h.mu.Unlock()
	if ok {
		return sum, nil
	}
	digest := sha256.New()
	n, err := io.Copy(digest, io.LimitReader(f, maxHashed+1))
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if n != st.Size || stampOf(&st) != is {
		return "", errors.New("it is being written")
	}
	sum = hex.EncodeToString(digest.Sum(nil))
	if time.Since(time.Unix(0, is.changed)) > settled {
		h.remember(is, sum)
	}
	return sum, nil
}

func (h *hasher) remember(is stamp, sum string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sums == nil || len(h.sums) >= maxSums {
		h.sums = map[stamp]string{}
	}
	h.sums[is] = sum
}

// stampOf converts what has other types on other systems.
func stampOf(st *unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Ctim.Nano(), st.Mtim.Nano()}
}
