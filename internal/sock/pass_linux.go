package sock

import "golang.org/x/sys/unix"

// receiveFlags make what is received close on exec from the start.
const receiveFlags = unix.MSG_CMSG_CLOEXEC
