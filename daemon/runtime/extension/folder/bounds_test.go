package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// The real limits are large, so the test uses small ones.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := os.WriteFile(filepath.Join(dir, "a", fmt.Sprint(i)), make([]byte, 10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		most bounds
		want string
	}{
		{bounds{files: 7, depth: 2, file: 10, bytes: 50}, ""},
		{bounds{files: 6, depth: 2, file: 10, bytes: 50}, "more than 6 files and folders"},
		{bounds{files: 1, depth: 2, file: 10, bytes: 50}, "more than 1 files and folders"},
		{bounds{files: 7, depth: 1, file: 10, bytes: 50}, "folders are nested deeper than 1"},
		{bounds{files: 7, depth: 2, file: 9, bytes: 50}, "more than 9 bytes"},
		{bounds{files: 7, depth: 2, file: 10, bytes: 49}, "more than 49 bytes"},
	} {
		_, err := walk(dir, nil, test.most)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, gate.ErrTooLarge) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v; want %q", test.most, err, test.want)
		}
	}
}
