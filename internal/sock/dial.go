package sock

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Dial connects to a daemon of this user. It sends nothing to anybody else: the socket and its
// folder must belong to this user and be closed to others, and the process that listens must
// have the same uid. The error is fs.ErrNotExist if there is no socket, and ECONNREFUSED if
// nobody listens.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	if err := CheckFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := checkSocket(path, info); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	uid, err := peerUID(c.(*net.UnixConn))
	if err == nil && int(uid) != os.Geteuid() {
		err = fmt.Errorf("uid %d listens there, not you (uid %d): %w", uid, os.Geteuid(), ErrUnsafe)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return c, nil
}
