package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

func TestExtensionsComeBackAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	e := Extension{Name: "x", Listing: []byte("a - b\n"), Manifest: []byte("schema: 1\n"), Installed: time.Now().UTC().Truncate(time.Microsecond), Decider: "me"}
	for _, name := range []string{"y", "x"} {
		e.Name = name
		if err := db.KeepExtension(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
	}
	e.Manifest = []byte("schema: 1\nname: x\n")
	if err := db.KeepExtension(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	db = open(t, path)
	defer closeDB(t, db)
	all, err := db.Extensions(t.Context())
	if err != nil || len(all) != 2 || all[1].Name != "y" || fmt.Sprint(all[0]) != fmt.Sprint(e) {
		t.Fatalf("%+v, %v; want %+v first", all, err, e)
	}
	if err := db.DropExtension(t.Context(), "y", false); err != nil {
		t.Fatal(err)
	}
	if all, err := db.Extensions(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestValuesOfExtensions(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	defer closeDB(t, db)
	for i := range 3 {
		if err := db.SetExtensionValue(t.Context(), "x", fmt.Sprint("k", i%2), fmt.Sprint(i), 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.SetExtensionValue(t.Context(), "x", "k3", "", 2); !errors.Is(err, gate.ErrTooLarge) {
		t.Errorf("one too many: %v", err)
	}
	values, err := db.ExtensionValues(t.Context(), "x")
	if err != nil || fmt.Sprint(values) != "map[k0:2 k1:1]" {
		t.Errorf("%v, %v", values, err)
	}
	if err := db.DropExtension(t.Context(), "x", true); err != nil {
		t.Fatal(err)
	}
	if values, err := db.ExtensionValues(t.Context(), "x"); err != nil || len(values) != 0 {
		t.Errorf("purged: %v, %v", values, err)
	}
}

// The memory of one extension stays within bounds, and does not affect another's.
func TestMemoryIsBounded(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	defer closeDB(t, db)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	write := func(of, content string, bounds MemoryBounds) {
		t.Helper()
		at = at.Add(time.Millisecond)
		if err := db.AppendMemory(t.Context(), of, &Memory{Written: at, Content: content, Tags: []string{}}, bounds); err != nil {
			t.Fatal(err)
		}
	}
	read := func(of string, since, until time.Time) string {
		t.Helper()
		var all []string
		err := db.EachMemory(t.Context(), of, since, until, func(m *Memory) bool {
			all = append(all, m.Content)
			return len(all) < 5
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, " ")
	}
	write("y", "other", MemoryBounds{Records: 1, Bytes: 100})
	few := MemoryBounds{Records: 3, Bytes: 1000}
	for i := range 5 {
		write("x", fmt.Sprint(i), few)
	}
	if got := read("x", time.Time{}, time.Time{}); got != "4 3 2" {
		t.Errorf("three at most: %s", got)
	}
	if got := read("x", at.Add(-time.Millisecond), at.Add(-time.Millisecond)); got != "3" {
		t.Errorf("of one millisecond: %s", got)
	}
	// The tags count towards the size of a record: two bytes if there are none.
	long := strings.Repeat("z", 995)
	write("x", long, few)
	if got := read("x", time.Time{}, time.Time{}); got != long+" 4" {
		t.Errorf("a thousand bytes at most: %.20s... of %d bytes", got, len(got))
	}
	if n, err := db.CountMemory(t.Context(), "y"); n != 1 || err != nil {
		t.Errorf("the other has %d, %v", n, err)
	}
}
