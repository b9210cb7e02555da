package wire

import "golang.org/x/sys/unix"

// hugePage is the size of the pages that the system is asked for, in bytes.
const hugePage = 2 << 20

// coarsen asks for large pages where a message gets long: the most of what a long
// one costs is that the system hands memory out in small ones. Where there are
// none it stays as it is.
func coarsen(memory []byte) {
	if len(memory) > 2*hugePage {
		_ = unix.Madvise(memory[hugePage:], unix.MADV_HUGEPAGE)
	}
}
