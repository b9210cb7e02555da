//lint:file-ignore U1000 see descriptors.go

package api

import "golang.org/x/sys/unix"

// pathOnly is set on a descriptor that can't be read.
const pathOnly = unix.O_PATH
