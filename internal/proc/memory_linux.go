package proc

import (
	"bytes"
	"os"
	"strconv"
)

// memoryOf returns the memory of one process in bytes: its proportional share or, if that can't
// be read, all of its resident memory, which shared reports. It is 0 for a process that has
// ended.
func memoryOf(pid int32) (size uint64, shared bool) {
	if b, err := readFile(pid, "smaps_rollup"); err == nil {
		if size, ok := parsePSS(b); ok {
			return size, false
		}
	}
	b, err := readFile(pid, "statm")
	if err != nil {
		return 0, false
	}
	return parseRSS(b) * uint64(os.Getpagesize()), true
}

// parsePSS parses the line "Pss: 1234 kB".
func parsePSS(b []byte) (uint64, bool) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[0]) == "Pss:" {
			n, err := strconv.ParseUint(string(f[1]), 10, 54)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// parseRSS parses the second number of statm, a number of pages.
func parseRSS(b []byte) uint64 {
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(string(f[1]), 10, 48) // 0 if malformed
	return n
}
