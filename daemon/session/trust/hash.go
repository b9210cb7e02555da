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
	// maxHashed is the largest file that is hashed, in bytes. The largest programs that run servers
	// have a few hundred megabytes.
	maxHashed = 1 << 30
	// maxSums is how many digests are remembered.
	maxSums = 512
	// settled is how long a file must be unchanged before its digest is remembered. File system
	// clocks have a coarse resolution: a file that was written just now can be written again
	// without a visible change.
	settled = 2 * time.Second
)

// hasher computes digests of files, and remembers them as long as the files do not change. It is
// safe for concurrent use.
type hasher struct {
	mu   sync.Mutex // guards sums
	sums map[stamp]string
}

// stamp identifies one state of a file. The time of the last status change can't be set by the
// writer.
type stamp struct {
	dev, ino uint64
	size     int64
	changed  int64 // of the status, in nanoseconds
	modified int64 // in nanoseconds
}

// sum returns the hex SHA-256 of the regular file at path.
func (h *hasher) sum(path string) (string, error) {
	// Without O_NONBLOCK, opening a named pipe would block until there is a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	// Nothing was written, so Close can't lose anything.
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("check %s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", errors.New("it is not a regular file")
	case st.Size > maxHashed:
		return "", fmt.Errorf("it is larger than %d MB", maxHashed>>20)
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

// stampOf converts fields whose types differ between systems.
func stampOf(st *unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Ctim.Nano(), st.Mtim.Nano()}
}
