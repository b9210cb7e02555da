package sock

import "golang.org/x/sys/unix"

// receiveFlags makes received descriptors close-on-exec from the start.
const receiveFlags = unix.MSG_CMSG_CLOEXEC
