package effects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
)

func TestParsePatch(t *testing.T) {
	files, err := effects.ParsePatch(`*** Begin Patch
*** Add File: a/b.go
+package b
+*** Delete File: x
*** Update File: c d.txt
*** Move to: e.txt
@@ func f()
 same
-old
+new
*** End of File
*** Delete File: /etc/passwd
*** End Patch
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []effects.PatchFile{
		{Op: effects.PatchAdd, Name: "a/b.go", Body: "+package b\n+*** Delete File: x\n"},
		{Op: effects.PatchUpdate, Name: "c d.txt", To: "e.txt", Body: "@@ func f()\n same\n-old\n+new\n*** End of File\n"},
		{Op: effects.PatchDelete, Name: "/etc/passwd"},
	}
	if !slices.Equal(files, want) {
		t.Errorf("got %+v", files)
	}
}

func TestParsePatchRefuses(t *testing.T) {
	for _, body := range []string{
		"", "x", "+x", "*** Add File: ", "*** Add File: a\nx", "*** Update File: a\nx", "*** Delete File: a\n-x", "*** Rename File: a", "*** Move to: b",
		"*** Update File: a\n@@\n*** Move to: b", "*** Delete File: a\n*** Move to: b", "*** Update File: a\n*** Move to: b\n*** Move to: c",
		"*** Update File: a\n *** Delete File: b", "*** Update File: a\n\t*** Add File: b", "*** Update File: a\n*** Begin Patch", "*** Add File: a\x00b",
	} {
		if files, err := effects.ParsePatch("*** Begin Patch\n" + body + "\n*** End Patch"); err == nil {
			t.Errorf("%q: got %+v", body, files)
		}
	}
	for _, text := range []string{"", "*** Begin Patch", "*** Begin Patch\n*** Delete File: a", "x\n*** Begin Patch\n*** Delete File: a\n*** End Patch", "*** Begin Patch\n*** Delete File: a\n*** End Patch\nx"} {
		if files, err := effects.ParsePatch(text); err == nil {
			t.Errorf("%q: got %+v", text, files)
		}
	}
}

func FuzzParsePatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End Patch")
	f.Add("*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** End Patch\n")
	f.Fuzz(func(t *testing.T, text string) {
		files, err := effects.ParsePatch(text)
		for _, file := range files {
			if err != nil || file.Name == "" || !strings.Contains(text, file.Name) {
				t.Errorf("%+v, %v", file, err)
			}
		}
	})
}
