package proc

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ReleaseProgram removes from the memory of this process what the system can read again from
// its program file: most of it was needed only to start, and the process will wait for hours.
// A failure leaves things as they are.
func ReleaseProgram() {
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range bytes.Lines(maps) {
		start, end, ok := fileMapping(line)
		if ok {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
		}
	}
}

// fileMapping parses a line of /proc/PID/maps, and reports whether its pages are those of a
// file, unchanged. Constants of a program that the system may load anywhere (PIE) were changed
// when it was loaded; such a program has high addresses.
func fileMapping(line []byte) (start, end uintptr, ok bool) {
	const anywhere = 1 << 32
	f := bytes.Fields(line) // 00400000-0057f000 r-xp 00000000 fe:00 10151885 /usr/libexec/tg-shim
	if len(f) < 6 || string(f[1]) != "r-xp" && string(f[1]) != "r--p" || f[5][0] != '/' {
		return 0, 0, false
	}
	from, to, _ := bytes.Cut(f[0], []byte("-"))
	a, err := strconv.ParseUint(string(from), 16, 64)
	if err != nil {
		return 0, 0, false
	}
	b, err := strconv.ParseUint(string(to), 16, 64)
	return uintptr(a), uintptr(b), err == nil && b <= anywhere
}
