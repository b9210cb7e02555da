package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnchangedMappings(t *testing.T) {
	var smaps strings.Builder
	want := []mapping{}
	for i, m := range []struct {
		mode, file string
		anonymous  int // kB that differ from the file
		unchanged  bool
	}{
		{"r-xp", "/usr/libexec/tg-shim", 0, true},
		{"r--p", "/usr/libexec/tg-shim", 0, true},
		{"r--p", "/home/a b/tg-shim (deleted)", 0, true},
		{"r--p", "/usr/libexec/tg-shim", 4, false}, // relocated
		{"r-xp", "/usr/libexec/tg-shim", 8, false}, // with breakpoints
		{"rw-p", "/usr/libexec/tg-shim", 0, false}, // variables
		{"r--s", "/usr/libexec/tg-shim", 0, false},
		{"---p", "/usr/libexec/tg-shim", 0, false},
		{"rw-p", "", 0, false},
		{"r--p", "", 0, false},
		{"r-xp", "[vdso]", 0, false},
		{"r-xp", "/lib/ld.so", 0, true},
	} {
		start := uintptr(0x400000 + i*0x10000)
		fmt.Fprintf(&smaps, "%08x-%08x %s 00000000 fe:00 10151885                           %s\n", start, start+0x10000, m.mode, m.file)
		fmt.Fprintf(&smaps, "Size:                 64 kB\nRss:                  64 kB\nPrivate_Dirty:         0 kB\nAnonymous:      %8d kB\nVmFlags: rd ex mr mw me \n", m.anonymous)
		if m.unchanged {
			want = append(want, mapping{start, start + 0x10000})
		}
	}
	if got := unchangedMappings([]byte(smaps.String())); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	for _, bad := range []string{"", "\n", "x-y r--p 0 0 0 /a\nAnonymous: 0 kB\n", "1-2 r--p\nAnonymous: 0 kB\n"} {
		if got := unchangedMappings([]byte(bad)); len(got) > 0 {
			t.Errorf("%q: %x", bad, got)
		}
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(unchangedMappings(text)) == 0 {
		t.Error("this process has none")
	}
	ReleaseProgram() // and goes on
}
