package proc

import "testing"

func TestFileMapping(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-0057f000 r-xp 00000000 fe:00 10151885                           /usr/libexec/tg-shim\n":        true,
		"0057f000-00743000 r--p 0017f000 fe:00 10151885                           /usr/libexec/tg-shim\n":        true,
		"0057f000-00743000 r--p 0017f000 fe:00 10151885                           /home/a b/tg-shim (deleted)\n": true,
		"00743000-0075a000 rw-p 00343000 fe:00 10151885                           /usr/libexec/tg-shim\n":        false, // variables
		"0075a000-02791000 rw-p 00000000 00:00 0 \n":                                                             false, // memory
		"00800000-00900000 r--p 00000000 00:00 0 \n":                                                             false,
		"00800000-00900000 r-xp 00000000 00:00 0                                  [vdso]\n":                      false,
		"00800000-00900000 ---p 00000000 fe:00 10151885                           /usr/libexec/tg-shim\n":        false,
		"00800000-00900000 r--s 00000000 fe:00 10151885                           /usr/libexec/tg-shim\n":        false, // shared
		"5581c0a00000-5581c0b00000 r--p 0017f000 fe:00 10151885                   /usr/libexec/tg-shim\n":        false, // PIE
		"00800000-zz r--p 00000000 fe:00 10151885                                 /usr/libexec/tg-shim\n":        false,
		"": false,
	} {
		if start, end, ok := fileMapping([]byte(line)); ok != want || ok && (start >= end || start < 0x400000) {
			t.Errorf("%q: %#x-%#x, %v", line, start, end, ok)
		}
	}
}
