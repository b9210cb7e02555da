package store

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

func aLaunch(launch string) Launch {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	return Launch{Server: "files", Launch: launch, Command: []string{"npx", "a b", "\x00'"}, First: at, Seen: at, Accepted: true}
}

func aPin(name string) Pin {
	return Pin{
		Server: "files", Launch: "l1", Kind: "tool", Name: name,
		Accepted: Definition{Digest: []byte("digest of " + name), Raw: []byte(`{"name":"` + name + `"}`), About: []byte(`{"size":1}`)},
		Since:    time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
	}
}

func keep(t *testing.T, db *DB, c PinChange) {
	t.Helper()
	if err := db.KeepPins(ctx, c); err != nil {
		t.Fatal(err)
	}
}

func definition(t *testing.T, db *DB, digest string) string {
	t.Helper()
	raw, err := db.Definition(ctx, []byte(digest))
	if errors.Is(err, gate.ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestPinsComeBackAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	changed := aPin("echo")
	changed.Offered = Definition{Digest: []byte("another"), Raw: []byte(`{"name":"echo","title":"x"}`), About: []byte(`{"size":2}`)}
	changed.Noticed, changed.Why, changed.Decider = changed.Since.Add(time.Hour), "changed", "ana"
	never := Pin{Server: "files", Launch: "l1", Kind: "prompt", Name: "p\x00'", Offered: Definition{Digest: []byte("large"), About: []byte("{}")}, Why: "smelly"}
	change := PinChange{
		Launches: []Launch{aLaunch("l1"), aLaunch("l2")}, Pins: []Pin{changed, aPin("read"), never},
		Views: []View{{Attachment: "a1", Server: "files", Launch: "l1", Offers: []byte(`{"offers":[]}`)}},
	}
	keep(t, db, change)
	closeDB(t, db)

	db = open(t, path)
	launches, err := db.Launches(ctx)
	if diff := cmp.Diff(change.Launches, launches); err != nil || diff != "" {
		t.Errorf("launches: %v (-want +got):\n%s", err, diff)
	}
	pins, err := db.Pins(ctx)
	slices.SortFunc(pins, func(a, b Pin) int { return -slices.Compare([]byte(a.Kind+"\xff"+b.Name), []byte(b.Kind+"\xff"+a.Name)) })
	want := []Pin{changed, aPin("read"), never}
	for i := range want {
		want[i].Accepted.Raw, want[i].Offered.Raw = nil, nil // only Definition returns these
	}
	if diff := cmp.Diff(want, pins); err != nil || diff != "" {
		t.Errorf("pins: %v (-want +got):\n%s", err, diff)
	}
	views, err := db.Views(ctx)
	if diff := cmp.Diff(change.Views, views); err != nil || diff != "" {
		t.Errorf("views: %v (-want +got):\n%s", err, diff)
	}
	for digest, want := range map[string]string{"another": `{"name":"echo","title":"x"}`, "large": "", "nowhere": "none"} {
		if got := definition(t, db, digest); got != want {
			t.Errorf("definition %s: got %q, want %q", digest, got, want)
		}
	}
}

// A definition is kept exactly as long as a pin refers to it.
func TestDefinitionsAreErased(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	p := aPin("echo")
	keep(t, db, PinChange{Launches: []Launch{aLaunch("l1"), aLaunch("l2")}, Pins: []Pin{p}})
	old := string(p.Accepted.Digest)
	p.Offered = Definition{Digest: []byte("new"), Raw: []byte(`{"new":1}`), About: []byte("{}")}
	p.Accepted.Raw = nil // a change may refer to a definition by its digest alone
	keep(t, db, PinChange{Pins: []Pin{p}})
	if got := definition(t, db, old); got != `{"name":"echo"}` {
		t.Errorf("the one accepted: got %q", got)
	}
	p.Accepted, p.Offered = Definition{Digest: []byte("new"), About: []byte("{}")}, Definition{}
	keep(t, db, PinChange{Pins: []Pin{p}})
	if got := definition(t, db, old); got != "none" {
		t.Errorf("the one replaced: got %q", got)
	}
	if got := definition(t, db, "new"); got != `{"new":1}` {
		t.Errorf("the new one: got %q", got)
	}
	if err := db.DropLaunch(ctx, "files", "l1"); err != nil {
		t.Fatal(err)
	}
	if got := definition(t, db, "new"); got != "none" {
		t.Errorf("of a launch that was forgotten: got %q", got)
	}
	pins, err := db.Pins(ctx)
	launches, _ := db.Launches(ctx)
	if err != nil || len(pins) != 0 || len(launches) != 1 {
		t.Errorf("%d pins, %d launches, %v", len(pins), len(launches), err)
	}
}

func TestPinsAreKeptTogether(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	stray := aPin("stray")
	stray.Launch = "nowhere"
	if err := db.KeepPins(ctx, PinChange{Launches: []Launch{aLaunch("l1")}, Pins: []Pin{aPin("echo"), stray}}); err == nil {
		t.Error("a pin of a launch that is not kept was taken")
	}
	pins, err := db.Pins(ctx)
	launches, _ := db.Launches(ctx)
	if err != nil || len(pins) != 0 || len(launches) != 0 {
		t.Errorf("%d pins and %d launches were left of a change that failed, %v", len(pins), len(launches), err)
	}
	keep(t, db, PinChange{Views: []View{{Attachment: "a1", Offers: []byte("{}")}}})
	if err := db.DropView(ctx, "a1"); err != nil {
		t.Fatal(err)
	}
	if views, err := db.Views(ctx); err != nil || len(views) != 0 {
		t.Errorf("%d views, %v", len(views), err)
	}
}
