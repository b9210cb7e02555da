//lint:file-ignore U1000 see descriptors.go

package api

import "golang.org/x/sys/unix"

// pathOnly is set on a descriptor that nothing can be read from.
const pathOnly = unix.O_PATH
