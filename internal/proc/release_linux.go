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
	maps, _ := os.ReadFile("/proc/self/smaps")
	for _, m := range unchangedMappings(maps) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unchangedMappings returns the mappings in the text of a smaps file that can't be written and
// have no page that differs from their file. Constants that were relocated when the program was
// loaded can't be written either, but differ.
func unchangedMappings(smaps []byte) (all []mapping) {
	var last mapping
	fromFile := false
	for line := range bytes.Lines(smaps) {
		f := bytes.Fields(line)
		switch {
		case len(f) >= 6 && f[5][0] == '/': // 00400000-0057f000 r-xp 00000000 fe:00 10151885 /usr/libexec/tg-shim
			from, to, _ := bytes.Cut(f[0], []byte("-"))
			start, err1 := strconv.ParseUint(string(from), 16, strconv.IntSize)
			end, err2 := strconv.ParseUint(string(to), 16, strconv.IntSize)
			last = mapping{uintptr(start), uintptr(end)}
			fromFile = err1 == nil && err2 == nil && (string(f[1]) == "r-xp" || string(f[1]) == "r--p")
		case len(f) > 1 && bytes.IndexByte(f[0], '-') > 0:
			fromFile = false
		case fromFile && len(f) == 3 && string(f[0]) == "Anonymous:" && string(f[1]) == "0":
			all = append(all, last)
		}
	}
	return all
}
