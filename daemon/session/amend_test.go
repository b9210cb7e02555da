package session

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
)

// What a wrap rewrites later is restored with the rest, also by the next daemon. Servers that run
// past the wrap are listed, and recorded once.
func TestAmend(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	open(t, r, aWrap)
	late := Ungoverned{Server: "late", Path: "/cfg.json", How: "added"}
	amend := func(files []File, ungoverned ...Ungoverned) {
		t.Helper()
		if err := r.Amend(context.Background(), aWrap, anID, files, nil, ungoverned); err != nil {
			t.Fatal(err)
		}
	}
	amend(nil, late)
	amend([]File{{Path: "/cfg.json", Journal: []byte("J2")}, {Path: "/new.json", Journal: []byte("N")}}, late)
	st := r.List()[0]
	if len(st.Files) != 2 || string(st.Files[0].Journal) != "J2" || st.Files[1].Path != "/new.json" || !slices.Equal(st.Ungoverned, []Ungoverned{late}) {
		t.Errorf("listed as %+v", st)
	}
	if got := strings.Join(w.notes, " "); got != "session:opened session:ungoverned session:amended" {
		t.Errorf("recorded %s", got)
	}
	amend(nil)
	if st := r.List()[0]; len(st.Ungoverned) > 0 || len(st.Files) != 2 {
		t.Errorf("listed as %+v", st)
	}
	if files := w.saved[anID].Files; len(files) != 2 {
		t.Errorf("saved as %+v", files)
	}

	r.Close() // the wrap is still there: it is killed only later
	next := w.registry(t)
	defer next.Close()
	w.eventually(t, "both are restored", func() bool {
		slices.Sort(w.restored)
		return slices.Equal(w.restored, []string{"J2", "N"})
	})
}

func TestAmendRefused(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	amend := func(wrap Process, id string) error {
		return r.Amend(context.Background(), wrap, id, []File{{Path: "/x"}}, nil, nil)
	}
	if err := amend(aWrap, anID); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("no session: %v", err)
	}
	s := open(t, r, aWrap)
	if err := amend(Process{PID: 1000009, Start: 7}, anID); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("another process: %v", err)
	}
	w.set(func() { w.held = true }) // it is not restored yet
	r.Leave(s)
	if err := amend(aWrap, anID); !errors.Is(err, gate.ErrNotRunning) {
		t.Errorf("after its end: %v", err)
	}
	if files := w.saved[anID].Files; len(files) != 1 || files[0].Path != "/cfg.json" {
		t.Errorf("saved as %+v", files)
	}
	w.set(func() { w.held = false })
}

// What a wrap says about servers behind an address is handed out for its session only, and survives
// the daemon. Those of protections are asked for where there is no such session.
func TestRemotes(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	spec := aSpec
	spec.Remotes = []agentconf.Remote{{Server: "a", Address: "https://a.test", Headers: []agentconf.Header{{Name: "K", Template: "${V}"}}, Syntax: "shell"}}
	if _, err := r.Open(context.Background(), aWrap, spec); err != nil {
		t.Fatal(err)
	}
	later := []agentconf.Remote{{Server: "b", Address: "https://b.test"}, {Server: "a", Address: "https://c.test"}}
	if err := r.Amend(context.Background(), aWrap, anID, nil, later[:1], nil); err != nil {
		t.Fatal(err)
	}
	look := func(r *Registry, session, server, want string) {
		t.Helper()
		if got, ok := r.Remote(session, server); got.Address != want || ok != (want != "") {
			t.Errorf("%s %s: %+v, %v", session, server, got, ok)
		}
	}
	look(r, anID, "a", "https://a.test")
	look(r, anID, "b", "https://b.test")
	look(r, anID, "c", "")
	look(r, "another", "a", "")
	w.set(func() { w.held = true }) // or the next daemon could restore the files, and forget the session, at once
	r.Close()
	r = w.registry(t)
	if got, ok := r.Remote(anID, "a"); !ok || !reflect.DeepEqual(got, spec.Remotes[0]) {
		t.Errorf("after a restart: %+v, %v", got, ok)
	}
	if _, err := r.Open(context.Background(), aWrap, spec); err != nil { // the wrap comes back
		t.Fatal(err)
	}
	w.set(func() { w.held = false })
	if err := r.Amend(context.Background(), aWrap, anID, nil, later, nil); err != nil {
		t.Fatal(err)
	}
	look(r, anID, "a", "https://c.test")
	r.remotes = func(id, server string) (agentconf.Remote, bool) {
		return agentconf.Remote{Address: "https://" + id + server}, true
	}
	look(r, "protection", "a", "https://protectiona")
	look(r, anID, "c", "")
	r.Close()
}
