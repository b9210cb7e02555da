package journal

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the journal may take to take an entry in. Whoever logs
// waits for it.
const patience = 250 * time.Millisecond

// Leads reports whether what is written to f reaches the journal: systemd says in
// JOURNAL_STREAM which device and inode that is. The variable alone means nothing,
// since whoever is started inherits it.
func Leads(f *os.File, stream string) bool {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return false
	}
	return stream != "" && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// dial returns what sends an entry to the journal. The socket is not connected, so
// that it outlives a journald that is started anew.
func dial(socket string) (send func([]byte) error, shut func() error, err error) {
	to := &net.UnixAddr{Name: socket, Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return nil, nil, err
	}
	send = func(entry []byte) error {
		if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
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

// sendFile hands an entry over in a file of memory, which must not be changed any
// more, or journald would not read it.
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
