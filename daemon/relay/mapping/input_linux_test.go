package mapping

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"
)

// If the memory that the system reads into were not present, a daemon that is killed meanwhile
// could leave bytes there that the next daemon reads a second time.
func TestRoomIsPresent(t *testing.T) {
	m, err := Create(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer pages.Close()
	present := func(b []byte) bool {
		var entry [8]byte
		if _, err := pages.ReadAt(entry[:], int64(uintptr(unsafe.Pointer(&b[0]))/page*8)); err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint64(entry[:])>>63 == 1
	}
	in, err := m.Input(Agent, 0)
	if err != nil {
		t.Fatal(err)
	}
	if present(in.space[readSize : readSize+1]) {
		t.Error("memory is present before it is asked for: this test shows nothing")
	}
	taken := uint64(0)
	read := func(n int) {
		t.Helper()
		room := in.Room(taken)
		for at := 0; at < len(room); at++ {
			if at%page > 0 && (in.end+at)%page > 0 {
				continue // a page begins, or the room
			}
			if !present(room[at:]) {
				t.Fatalf("of %d bytes of room behind %d, those from %d are not present", len(room), in.end, at)
			}
		}
		n = min(n, len(room))
		for i := range n {
			room[i] = 'x'
		}
		in.Read(n)
	}
	for range 3 {
		for range 2 * (1 << 20) / readSize { // a long line
			read(readSize)
		}
		if len(in.Behind()) != readSize {
			t.Errorf("after long reads, %d bytes are read at once", len(in.Behind()))
		}
		taken += uint64(in.end)
		for range 100 {
			read(150)
			taken += 150
			read(100)
		}
		if n := len(in.Behind()); n != shortRead {
			t.Errorf("after short reads, %d bytes are read at once", n)
		}
		taken = in.base + uint64(in.end)
	}
}
