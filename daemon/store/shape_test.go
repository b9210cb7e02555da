package store

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestListings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	keep := func(l Listing) {
		t.Helper()
		if err := db.KeepListing(ctx, &l); err != nil {
			t.Fatal(err)
		}
	}
	got := func(db *DB) []Listing {
		t.Helper()
		all, err := db.Listings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := got(db); len(all) != 0 {
		t.Errorf("a new file has %v", all)
	}
	old := Listing{Server: "fs", Launch: "a", Listed: at, Tools: []Shape{{Tool: "read", Takes: []byte(`{"k":"object"}`)}, {Tool: "write\x00", Fault: "too large"}}}
	other := Listing{Server: "fs", Launch: "b", Listed: at.Add(time.Hour), Tools: []Shape{{Tool: "read", Takes: []byte(`{}`)}}}
	keep(old)
	keep(other)
	if diff := cmp.Diff([]Listing{other, old}, got(db)); diff != "" {
		t.Error(diff)
	}
	changed := Listing{Server: "fs", Launch: "a", Listed: at.Add(2 * time.Hour), Tools: []Shape{{Tool: "list", Takes: []byte(`{}`)}}}
	keep(changed)
	keep(Listing{Server: "empty", Listed: at})
	if diff := cmp.Diff([]Listing{changed, other, {Server: "empty", Listed: at}}, got(db)); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if err := db.DropListing(ctx, "fs", "a"); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	if diff := cmp.Diff([]Listing{other, {Server: "empty", Listed: at}}, got(open(t, path))); diff != "" {
		t.Error(diff)
	}
	var left int
	if err := open(t, path).sql.QueryRow(`SELECT count(*) FROM shapes`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d shapes are left, %v", left, err)
	}
}

func TestStanding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	for _, want := range []string{"", "one", "two"} {
		if want != "" {
			if err := db.PutActiveSet(ctx, want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := db.ActiveSet(ctx); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// A file of the first version is migrated to the current one with its content.
func TestMigratesFromTheFirstVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := claim(path); err != nil {
		t.Fatal(err)
	}
	old, err := sql.Open("sqlite", source(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{migrations[0], "PRAGMA user_version = 1", `INSERT INTO sessions VALUES ('s', 'a', '[]', '/p', '', 0, 1, 1, 1, '[]', '')`} {
		if _, err := old.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := open(t, path)
	if all, err := db.Sessions(ctx); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
	if err := db.KeepListing(ctx, &Listing{Server: "fs"}); err != nil {
		t.Error(err)
	}
}
