package facts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// grow fills a folder at random with folders, files, links to any of them, and links that dangle
// or form a cycle. It returns the names that occur in it.
func grow(t *testing.T, r *rand.Rand, root string) []string {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e"}
	folders := []string{root}
	for range 14 {
		at := folders[r.IntN(len(folders))] + "/" + names[r.IntN(len(names))]
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		var err error
		switch r.IntN(5) {
		case 0, 1:
			if err = os.Mkdir(at, 0o700); err == nil {
				folders = append(folders, at)
			}
		case 2:
			err = os.WriteFile(at, nil, 0o600)
		case 3:
			err = os.Symlink("./"+wander(r, names), at)
		case 4:
			err = os.Symlink(root+"/"+wander(r, names), at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 && len(folders) > 2 { // a folder that nobody may read
		shut := folders[len(folders)-1]
		if err := os.Chmod(shut, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(shut, 0o700) }) // so that the folder can be removed
	}
	return names
}

// wander returns a random path of a few parts.
func wander(r *rand.Rand, names []string) string {
	parts := make([]string, 1+r.IntN(5))
	for i := range parts {
		switch r.IntN(8) {
		case 0, 1:
			parts[i] = ".."
		case 2:
			parts[i] = []string{".", "", "missing", "self"}[r.IntN(4)]
		default:
			parts[i] = names[r.IntN(len(names))]
		}
	}
	return strings.Join(parts, "/")
}

// The lookup of a path as a whole gives the same result as following it link by link.
func TestFollowAsLinkByLink(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	whole := 0
	for range 60 {
		root, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		names := grow(t, r, root)
		for range 100 {
			from, p := root, wander(r, names)
			switch r.IntN(4) {
			case 0:
				from, p = "/", root+"/"+p
			case 1:
				from = root + "/gone" // a project that has been removed
			}
			led, exists, _ := follow(context.Background(), from, p)
			wantLed, wantExists := linkByLink(context.Background(), from, p)
			wantExists = wantExists && wantLed != root+"/gone" // linkByLink does not check the folder where it begins
			if led != wantLed || exists != wantExists {
				tree, _ := filepath.Glob(root + "/*")
				t.Fatalf("seed %d: follow(%q, %q) = %q, %v; link by link %q, %v; in %q", seed, from, p, led, exists, wantLed, wantExists, tree)
			}
			if is, _ := lookupWithoutLinks(from + "/" + p); is != isUnclear {
				whole++
			}
		}
	}
	// Otherwise nothing was compared. A system may lack the call or forbid it.
	if is, _ := lookupWithoutLinks("/"); is != isUnclear && whole < 500 {
		t.Errorf("of 6000 paths only %d were answered as a whole", whole)
	}
}

func TestFollowWhatIsNotThere(t *testing.T) {
	for p, want := range map[string]string{
		"/proc/self/cwd/x":            "/proc/self/cwd/x",
		"/proc/./self/../x":           "/proc/self/../x",
		"/proc/thread-self/root":      "/proc/thread-self/root",
		"/no-such-folder/a/../b":      "/no-such-folder/b",
		"/no-such-folder/../etc/../b": "/b",
	} {
		if led, exists, _ := follow(context.Background(), "/", p); led != want || exists {
			t.Errorf("follow(%q) = %q, %v; want %q, false", p, led, exists, want)
		}
	}
	long := fmt.Sprintf("/tmp/%s/x", strings.Repeat("n", 300)) // no file system has such a name
	if led, _, _ := follow(context.Background(), "/", long); !strings.HasSuffix(led, "/x") {
		t.Errorf("follow of a name too long = %q", led)
	}
}
