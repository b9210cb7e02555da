package pipe

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"
)

// If the memory into which the staging pipe is read were not present, a daemon that is killed
// meanwhile could leave the end of what was staged in the pipe.
func TestMemoryIsPresent(t *testing.T) {
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer pages.Close()
	const size = 8 << 20 // larger than what Go has at hand
	absent := func(b []byte) (n int) {
		page := os.Getpagesize()
		for at := 0; at < len(b); at += page {
			var entry [8]byte
			if _, err := pages.ReadAt(entry[:], int64(uintptr(unsafe.Pointer(&b[at]))/uintptr(page)*8)); err != nil {
				t.Fatal(err)
			}
			if binary.LittleEndian.Uint64(entry[:])>>63 == 0 {
				n++
			}
		}
		return n
	}
	if absent(make([]byte, size)) == 0 {
		t.Skip("new memory is present anyway: this test shows nothing")
	}
	if n := absent(presentMemory(size)); n > 0 {
		t.Errorf("%d pages are not present", n)
	}
}
