package keep

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMessage is the maximum length of a message, and maxRights the maximum number of
// descriptors in it. The system's limits are lower.
const (
	maxMessage = 4096
	maxRights  = 256
)

// pair returns the two ends of the socket between a daemon and its keeper: ours, and the file
// that the daemon inherits.
func pair() (*net.UnixConn, *os.File, error) {
	fds, err := socketPair()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "the daemon's end")
	ours, err := connOf(fds[0])
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// listen handles the daemon's messages until the daemon has ended.
func (l *daemonRun) listen() {
	message, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*maxRights))
	for {
		n, m, flags, _, err := l.ours.ReadMsgUnix(message, rights)
		if err != nil {
			return
		}
		fds := received(rights[:m])
		words := strings.Split(string(message[:n]), "\n")
		if slices.Contains(words, stateEnd) {
			closeAll(fds)
			return
		}
		if flags&unix.MSG_CTRUNC != 0 {
			l.Log.Error("some descriptors from the daemon were lost")
			closeAll(fds)
			continue
		}
		l.handleMessage(words, fds)
	}
}

// handleMessage handles one message in the format of sd_notify.
func (l *daemonRun) handleMessage(words []string, fds []int) {
	name := ""
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "FDNAME="); ok {
			name = value
		}
		switch word {
		case stateReady:
			l.ready, l.keeper.ready = true, true
		case stateStopping:
			l.stopping = true
		}
	}
	switch {
	case slices.Contains(words, "FDSTOREREMOVE=1"):
		l.held = slices.DeleteFunc(l.held, func(h held) bool {
			if h.name == name {
				_ = unix.Close(h.fd) // a copy
			}
			return h.name == name
		})
	case slices.Contains(words, "FDSTORE=1"):
		for _, fd := range fds {
			l.held = append(l.held, held{name, fd})
		}
		return
	}
	closeAll(fds) // closing them answers a barrier
}

// received returns the descriptors of a message.
func received(rights []byte) (all []int) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // a copy
	}
}
