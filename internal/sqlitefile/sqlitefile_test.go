package sqlitefile

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // registers the driver
)

const columns = "CREATE TABLE part ( id text PRIMARY KEY, number integer NOT NULL, data text"

// database is one that SQLite writes.
type database struct {
	t    *testing.T
	path string
	*sql.DB
}

func newDatabase(t *testing.T, pragmas ...string) *database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	d := &database{t, path, db}
	for _, pragma := range append(pragmas, "journal_mode=WAL", "synchronous=OFF") {
		d.exec("PRAGMA " + pragma)
	}
	return d
}

func (d *database) exec(query string, args ...any) {
	d.t.Helper()
	if _, err := d.Exec(query, args...); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
}

// files returns the bytes of the database and of its log.
func (d *database) files() (db, wal []byte) {
	d.t.Helper()
	db, err := os.ReadFile(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	wal, _ = os.ReadFile(d.path + "-wal") // there may be none
	return db, wal
}

// rows reads the rows of the table part in what are the bytes of a database and its log.
func rows(db, wal []byte, max int64) (all [][]any, err error) {
	var log io.ReaderAt
	if wal != nil {
		log = bytes.NewReader(wal)
	}
	f, err := Open(bytes.NewReader(db), log, max, 1<<20)
	if err != nil {
		return nil, err
	}
	err = f.Rows("part", columns, func(row []any) bool {
		all = append(all, row)
		return true
	})
	return all, err
}

// Whatever SQLite has written, with all sizes of pages, committed to the log or not, is read as SQLite
// reads it.
func TestRows(t *testing.T) {
	for _, size := range []int{512, 1024, 4096, 65536} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(size, "/", seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(size)))
				d := newDatabase(t, "cache_size=5", fmt.Sprint("page_size=", size), fmt.Sprint("wal_autocheckpoint=", []int{0, 20, 1000}[seed]))
				d.exec("CREATE TABLE other (x blob)")
				d.exec("CREATE TABLE `part` (\n  `id` text PRIMARY KEY,\n  `number` integer NOT NULL,\n  `data` text)")
				for step := range 300 {
					switch what := random.IntN(10); {
					case what < 6:
						d.exec("INSERT INTO part VALUES (?, ?, ?)", fmt.Sprint(step), random.Int64()>>random.IntN(64)-1<<random.IntN(20), strings.Repeat("x", random.IntN(1<<random.IntN(15))))
					case what < 8:
						d.exec("UPDATE part SET data = ? WHERE rowid % 7 = 3", strings.Repeat("y", random.IntN(3000)))
					case what < 9:
						d.exec("DELETE FROM part WHERE rowid % 11 = ?", random.IntN(11))
					default:
						d.exec("INSERT INTO other VALUES (zeroblob(?))", random.IntN(10000))
					}
					if step%50 == 49 {
						d.compare()
					}
				}
			})
		}
	}
}

func (d *database) compare() {
	d.t.Helper()
	tx, err := d.Begin()
	if err != nil {
		d.t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE part SET number = number / 2, id = id || 'uncommitted'"); err != nil {
		d.t.Fatal(err)
	}
	db, wal := d.files()
	got, err := rows(db, wal, 1<<30)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		d.t.Fatal(err)
	}
	var want [][]any
	found, err := d.Query("SELECT id, number, data FROM part ORDER BY rowid DESC")
	if err != nil {
		d.t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var id, data string
		var number int64
		if err := found.Scan(&id, &number, &data); err != nil {
			d.t.Fatal(err)
		}
		want = append(want, []any{id, number, data})
	}
	if err := found.Err(); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
		d.t.Fatalf("%d rows, want %d: %v", len(got), len(want), err)
	}
}

// small is a database of one row, all of which is in the log.
func small(t *testing.T, more ...string) (db, wal []byte) {
	d := newDatabase(t, "wal_autocheckpoint=0")
	d.exec("CREATE TABLE part (id text PRIMARY KEY, number integer NOT NULL, data text)")
	for i := range 3 {
		d.exec("INSERT INTO part VALUES (?, ?, ?)", fmt.Sprint(i), i, strings.Repeat("x", 10_000))
	}
	for _, query := range more {
		d.exec(query)
	}
	return d.files()
}

// Of what is no such table, no database, damaged, or too large, an error says so.
func TestRefused(t *testing.T) {
	db, wal := small(t)
	if all, err := rows(db, wal, 1<<20); len(all) != 3 || err != nil {
		t.Fatal(len(all), err)
	}
	_, other := small(t, "DELETE FROM part")
	changed := func(from []byte, at int, to byte) []byte {
		to ^= from[at]
		from = bytes.Clone(from)
		from[at] ^= to
		return from
	}
	for name, tt := range map[string]struct {
		db, wal []byte
		max     int64
		want    error
		rows    int
	}{
		"nothing":                 {nil, nil, 1 << 20, errDamaged, 0},
		"text":                    {[]byte(strings.Repeat("text ", 1000)), nil, 1 << 20, errDamaged, 0},
		"without its log":         {db, nil, 1 << 20, errDamaged, 0},
		"a cut log":               {db, wal[:len(wal)-100], 1 << 20, nil, 2},
		"a log without a commit":  {db, wal[:2000], 1 << 20, errDamaged, 0},
		"the log of another":      {db, other, 1 << 20, nil, 0},
		"a log of another salt":   {db, changed(wal, 17, wal[17]+1), 1 << 20, errDamaged, 0},
		"a log that is no log":    {db, db, 1 << 20, errDamaged, 0},
		"more than may be read":   {db, wal, 40_000, ErrTooMuch, 1},
		"an unknown text of UTF":  {db, changed(wal, 32+24+59, 2), 1 << 20, nil, 3}, // of a page that was replaced since
		"pages of a size of 3":    {db, changed(wal, 11, 3), 1 << 20, errDamaged, 0},
		"an odd magic of the log": {db, changed(wal, 0, 1), 1 << 20, errDamaged, 0},
	} {
		if all, err := rows(tt.db, tt.wal, tt.max); !errors.Is(err, tt.want) || len(all) != tt.rows {
			t.Errorf("%s: %d rows, %v; want %d, %v", name, len(all), err, tt.rows, tt.want)
		}
	}
	for name, definitions := range map[string][]string{
		"no table": {"CREATE TABLE x (a)"}, "a view": {"CREATE TABLE x (a)", "CREATE VIEW part AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"},
		"an index":        {"CREATE TABLE x (a)", "CREATE INDEX part ON x (a)"},
		"other columns":   {"CREATE TABLE part (id text PRIMARY KEY, data text, number integer NOT NULL)"},
		"computed ones":   {"CREATE TABLE part (id text PRIMARY KEY, number integer NOT NULL AS (1), data text)"},
		"a virtual table": {"CREATE VIRTUAL TABLE part USING fts5(id, number, data)"},
	} {
		d := newDatabase(t)
		for _, definition := range definitions {
			d.exec(definition)
		}
		if all, err := rowsOf(d); !errors.Is(err, ErrNoTable) || len(all) > 0 {
			t.Errorf("%s: %d rows, %v", name, len(all), err)
		}
	}
}

func rowsOf(d *database) ([][]any, error) {
	db, wal := d.files()
	return rows(db, wal, 1<<20)
}

// A tree whose pages lead to the same pages again, each many times, comes to an end.
func TestEndless(t *testing.T) {
	d := newDatabase(t, "wal_autocheckpoint=1")
	d.exec("CREATE TABLE part (id text PRIMARY KEY, number integer NOT NULL, data text)")
	for i := range 3000 {
		d.exec("INSERT INTO part VALUES (?, ?, ?)", fmt.Sprint(i), i, strings.Repeat("x", 300))
	}
	d.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	db, _ := d.files()
	top := byte(0)
	for at := 4096; at < len(db); at += 4096 {
		if page := db[at:]; page[0] == 5 { // leads to itself
			top = byte(at/4096 + 1)
			copy(page[8:], []byte{0, 0, 0, top})
		}
	}
	if _, err := rows(db, nil, 64<<20); !errors.Is(err, errDamaged) || top == 0 {
		t.Errorf("page %d: %v", top, err)
	}
}

// A page that has the same row many times is not read as often.
func TestSameRow(t *testing.T) {
	d := newDatabase(t, "page_size=65536")
	d.exec("CREATE TABLE part (id text PRIMARY KEY, number integer NOT NULL, data text)")
	d.exec("INSERT INTO part VALUES ('a', 1, ?)", strings.Repeat("x", 20_000))
	d.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	db, _ := d.files()
	page := db[65536:]
	for i := range 20_000 {
		copy(page[8+2*i:], page[8:10])
	}
	copy(page[3:], []byte{20_000 >> 8, 20_000 & 0xff})
	if all, err := rows(db, nil, 1<<20); !errors.Is(err, ErrTooMuch) || len(all) == 0 || len(all) > 1<<20/20_000 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}

// Whatever the bytes are, reading ends, and reads no more than it may.
func FuzzRows(f *testing.F) {
	dir := f.TempDir()
	handle, err := sql.Open("sqlite", filepath.Join(dir, "x.db"))
	if err != nil {
		f.Fatal(err)
	}
	handle.SetMaxOpenConns(1)
	for _, query := range []string{
		"PRAGMA page_size=512", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=OFF", "CREATE TABLE part (id text PRIMARY KEY, number integer NOT NULL, data text)",
		"INSERT INTO part VALUES ('a', 1, 'x'), ('b', -200, hex(zeroblob(900))), ('c', 1000000, NULL)", "PRAGMA wal_checkpoint(FULL)", "INSERT INTO part VALUES ('d', 5, 'y')",
	} {
		if _, err := handle.Exec(query); err != nil {
			f.Fatal(err)
		}
	}
	db, err := os.ReadFile(filepath.Join(dir, "x.db"))
	if err != nil {
		f.Fatal(err)
	}
	wal, err := os.ReadFile(filepath.Join(dir, "x.db-wal"))
	if err != nil {
		f.Fatal(err)
	}
	handle.Close()
	f.Add(db, wal, 0, byte(0))
	f.Add(db, []byte(nil), 0, byte(0))
	for at := 0; at < len(db); at += 13 {
		f.Add(db, wal, at, byte(255))
	}
	f.Fuzz(func(t *testing.T, db, wal []byte, at int, to byte) {
		if at >= 0 && at < len(db) {
			db = bytes.Clone(db)
			db[at] = to
		}
		total := 0
		file, err := Open(bytes.NewReader(db), bytes.NewReader(wal), 1<<20, 1<<16)
		if err != nil {
			return
		}
		_ = file.Rows("part", columns, func(row []any) bool {
			for _, value := range row {
				if text, ok := value.(string); ok {
					total += len(text)
				}
			}
			return true
		})
		if total > 1<<21 {
			t.Errorf("%d bytes of rows were read", total)
		}
	})
}
