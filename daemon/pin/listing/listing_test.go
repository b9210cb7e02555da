package listing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// told collects the tools that a Registry reports.
type told struct {
	mu    sync.Mutex
	names []string
}

func (n *told) news(tools []*shape.Tool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range tools {
		n.names = append(n.names, t.Server+"/"+t.Name)
	}
}

// wait waits until count tools were reported, and returns them.
func (n *told) wait(t *testing.T, count int) string {
	t.Helper()
	for over := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n.mu.Lock()
		all := strings.Join(n.names, " ")
		done := len(n.names) >= count
		n.mu.Unlock()
		if done || time.Now().After(over) {
			return all
		}
	}
}

func openDB(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openRegistry(t *testing.T, db Store) (*Registry, *told) {
	t.Helper()
	n := &told{}
	b, err := Open(db, slog.New(slog.DiscardHandler), n.news)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, n
}

func call(server, launch string) *gate.Call {
	return &gate.Call{Case: gate.Case{Server: server, Launch: launch}}
}

func definition(name, schema string) gate.Definition {
	return gate.Definition{Name: name, InputSchema: []byte(schema)}
}

const textSchema = `{"type":"object","properties":{"path":{"type":"string"}}}`

func TestBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := openDB(t, path)
	b, news := openRegistry(t, db)
	if b.Tool("fs", "l", "read") != nil || len(b.Listings()) != 0 {
		t.Error("a new Registry knows something")
	}
	b.Listed(call("fs", "l"), []gate.Definition{definition("read", textSchema), definition("bad", `{"type":"string"}`), {Name: "none"}, {Name: strings.Repeat("x", maxName+1)}})
	b.Listed(call("fs", "other"), []gate.Definition{definition("read", `{"type":"object"}`)})
	if got := news.wait(t, 4); got != "fs/read fs/bad fs/none fs/read" {
		t.Errorf("told: got %s", got)
	}
	read := b.Tool("fs", "l", "read")
	if read == nil || read.Takes == nil || strings.Join(read.Takes.Names(), "") != "path" {
		t.Errorf("read: got %+v", read)
	}
	if bad := b.Tool("fs", "l", "bad"); bad == nil || bad.Takes != nil || bad.Fault == "" {
		t.Errorf("bad: got %+v", bad)
	}
	if none := b.Tool("fs", "l", "none"); none == nil || none.Takes == nil {
		t.Errorf("none: got %+v", none)
	}

	// An unchanged list, or one with only other descriptions, is not reported.
	b.Listed(call("fs", "l"), []gate.Definition{definition("read", textSchema)})
	b.Listed(call("fs", "l"), []gate.Definition{definition("read", strings.Replace(textSchema, `"string"`, `"string","description":"which file"`, 1))})
	if b.Tool("fs", "l", "read") != read {
		t.Error("a tool that is as it was is another one")
	}
	// Another schema is.
	b.Listed(call("fs", "l"), []gate.Definition{definition("read", `{"type":"object","properties":{"path":{"type":"array"}}}`)})
	if got := news.wait(t, 5); !strings.HasSuffix(got, "fs/read fs/read") {
		t.Errorf("told: got %s", got)
	}
	b.Close()

	again, news := openRegistry(t, db)
	if got := again.Tool("fs", "l", "read"); got == nil || got == read || got.Takes == nil {
		t.Errorf("after a restart: got %+v", got)
	}
	if got := again.Tool("fs", "l", "bad"); got == nil || got.Fault == "" {
		t.Errorf("after a restart: got %+v", got)
	}
	if all := again.Listings(); len(all) != 2 || len(all[0].Tools)+len(all[1].Tools) != 4 {
		t.Errorf("after a restart: got %+v", all)
	}
	kept := again.Tool("fs", "other", "read")
	again.Listed(call("fs", "other"), []gate.Definition{definition("read", `{"type":"object"}`), definition("new", textSchema)})
	if got := news.wait(t, 1); got != "fs/new" || again.Tool("fs", "other", "read") != kept {
		t.Errorf("what is as it was before the restart: told %s", got)
	}
}

// A server that lists endlessly must not fill memory or disk.
func TestLimits(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "state.db"))
	b, _ := openRegistry(t, db)
	var many []gate.Definition
	for i := range maxTools + 10 {
		many = append(many, definition(fmt.Sprint("t", i), `{"type":"object","properties":{}}`))
	}
	b.Listed(call("many", ""), many)
	if b.Tool("many", "", fmt.Sprint("t", maxTools-1)) == nil || b.Tool("many", "", fmt.Sprint("t", maxTools)) != nil {
		t.Errorf("it knows more or fewer than %d tools", maxTools)
	}

	large := func(n int) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"%s%d":{"type":"string"}`, strings.Repeat("x", 40), i))
		}
		return `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
	}
	for i := range 10 {
		b.Listed(call("large", ""), []gate.Definition{definition(fmt.Sprint("t", i), large(1000))})
	}
	if got := b.Tool("large", "", "t9"); got == nil || got.Takes != nil || !strings.Contains(got.Fault, "too large in total") {
		t.Errorf("the last of many large ones: got %+v", got)
	}

	for i := range 100 {
		b.Listed(call("launch", fmt.Sprint(i)), []gate.Definition{definition("t", large(1000))})
	}
	if b.Tool("launch", "0", "t") != nil || b.Tool("launch", "99", "t") == nil {
		t.Error("the oldest launch is not the one that was let go")
	}
	total := 0
	for _, g := range b.launches {
		total += g.bytes
	}
	if total != b.bytes || total > maxBytes {
		t.Errorf("it counts %d bytes, has %d, and may have %d", b.bytes, total, maxBytes)
	}
	b.Close()
	again, _ := openRegistry(t, db)
	if len(again.Listings()) != len(b.launches) || again.bytes != b.bytes {
		t.Errorf("after a restart there are %d launches of %d bytes, want %d of %d", len(again.Listings()), again.bytes, len(b.launches), b.bytes)
	}
}

func TestWhatIsOldOrBrokenIsForgotten(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "state.db"))
	for _, l := range []store.Listing{
		{Server: "good", Listed: time.Now(), Tools: []store.Shape{{Tool: "t", Takes: []byte(`{"k":"object"}`)}}},
		{Server: "old", Listed: time.Now().Add(-keptFor - time.Hour), Tools: []store.Shape{{Tool: "t", Takes: []byte(`{"k":"object"}`)}}},
		{Server: "broken", Listed: time.Now(), Tools: []store.Shape{{Tool: "t", Takes: []byte(`{"k":"of another version"}`)}}},
	} {
		if err := db.KeepListing(t.Context(), &l); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := openRegistry(t, db)
	if all := b.Listings(); len(all) != 1 || all[0].Server != "good" {
		t.Errorf("got %+v", all)
	}
	if kept, err := db.Listings(t.Context()); err != nil || len(kept) != 1 {
		t.Errorf("on disk: got %+v, %v", kept, err)
	}
}

// failing is a store that can't be written.
type failing struct{ Store }

func (failing) KeepListing(context.Context, *store.Listing) error { return errors.New("full") }

// What can't be stored is still known until the daemon ends.
func TestDiskThatCantBeWritten(t *testing.T) {
	b, news := openRegistry(t, failing{openDB(t, filepath.Join(t.TempDir(), "state.db"))})
	b.Listed(call("fs", ""), []gate.Definition{definition("read", textSchema)})
	if news.wait(t, 1); b.Tool("fs", "", "read") == nil {
		t.Error("it is not known")
	}
	b.Close()
	b.Listed(call("fs", ""), []gate.Definition{definition("late", textSchema)})
	if b.Tool("fs", "", "late") != nil {
		t.Error("it learns after the end")
	}
}

func TestConcurrently(t *testing.T) {
	b, _ := openRegistry(t, openDB(t, filepath.Join(t.TempDir(), "state.db")))
	var wait sync.WaitGroup
	for n := range 4 {
		wait.Go(func() {
			for i := range 50 {
				b.Listed(call("fs", fmt.Sprint(n%2)), []gate.Definition{definition("read", []string{textSchema, `{"type":"object"}`}[i%2]), definition(fmt.Sprint(i), textSchema)})
				if b.Tool("fs", fmt.Sprint(n%2), "read") == nil {
					t.Error("what was listed is not known")
				}
				b.Listings()
			}
		})
	}
	wait.Wait()
}
