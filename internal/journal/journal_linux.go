package journal

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendTimeout is the timeout for sending an entry, during which the caller of the logger blocks.
const sendTimeout = 250 * time.Millisecond

// Leads reports whether output to f goes to the journal. systemd sets JOURNAL_STREAM to the
// device and inode of such a stream. The variable alone proves nothing, since child processes
// inherit it.
func Leads(f *os.File, stream string) bool {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return false
	}
	return stream != "" && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// dial returns a function that sends an entry to the journal. The socket is not connected, so
// it works across restarts of journald.
func dial(socket string) (send func([]byte) error, shut func() error, err error) {
	to := &net.UnixAddr{Name: socket, Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return nil, nil, err
	}
	send = func(entry []byte) error {
		if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return err
		}
		_, _, err := conn.WriteMsgUnix(entry, nil, to)
		if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENOBUFS) {
			return sendFile(conn, to, entry)
		}
		return err
	}
	return send, conn.Close, nil
}

// sendFile sends an entry in a memory file, which must be sealed: otherwise journald would not
// read it.
func sendFile(conn *net.UnixConn, to *net.UnixAddr, entry []byte) error {
	fd, err := unix.MemfdCreate("journal-entry", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "journal-entry")
	defer f.Close()
	if _, err := f.Write(entry); err != nil {
		return err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(nil, unix.UnixRights(fd), to)
	return err
}
