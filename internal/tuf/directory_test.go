package tuf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
)

// server is a web server with what was written so far.
type server map[string][]byte

func (s server) get(name string, limit int) ([]byte, error) {
	content, there := s[name]
	switch {
	case !there:
		return nil, fmt.Errorf("get %s: %w", name, fs.ErrNotExist)
	case len(content) > limit:
		return nil, fmt.Errorf("get %s: it is too long", name)
	}
	return content, nil
}

func (f *fleet) directory() []File {
	f.Helper()
	files, err := f.Directory()
	f.must(err)
	return files
}

// A client finds all that a timestamp names, and the same as by an engine, at every moment at which the next
// publication is being written.
func TestFetchWhileWritten(t *testing.T) {
	f := newFleet(t)
	web := server{}
	for _, file := range f.directory() {
		web[file.Name] = file.Content
	}
	client := f.take(f.begin())
	f.must(f.AddRoot(theRoles, start.Add(365*day), keysOf("root a", "root c")...))
	f.publish("dev 2")
	for _, file := range f.directory() {
		u, err := Fetch(web.get, web[TimestampFile], client.RootVersion(), group, place)
		f.must(err)
		next, err := client.Update(u, start)
		f.must(err)
		if got := string(next.Target()); got != "dev 1" {
			t.Errorf("before %s is written: %q", file.Name, got)
		}
		web[file.Name] = file.Content
	}
	u, err := Fetch(web.get, web[TimestampFile], 1, group, place)
	f.must(err)
	want := f.Update(group, place, 1)
	if !slices.EqualFunc(u.Roots, want.Roots, slices.Equal) || string(u.Timestamp) != string(want.Timestamp) || string(u.Snapshot) != string(want.Snapshot) ||
		string(u.Targets) != string(want.Targets) || string(u.Delegated) != string(want.Delegated) || string(u.Target) != "dev 2" {
		t.Errorf("fetched: %q", u)
	}
}

// What is not there, or no metadata, is an error that names it.
func TestFetchIncomplete(t *testing.T) {
	f := newFleet(t)
	for _, missing := range f.directory() {
		web := server{}
		for _, file := range f.directory() {
			if file.Name != missing.Name {
				web[file.Name] = file.Content
			}
		}
		needed := missing.Name != RootFile(1) && missing.Name != TimestampFile && missing.Name != "1.ops.json" && missing.Name[:4] != "ops/"
		_, err := Fetch(web.get, f.Timestamp, 1, group, place)
		if needed != errors.Is(err, fs.ErrNotExist) || !needed && err != nil {
			t.Errorf("without %s: %v", missing.Name, err)
		}
		web[missing.Name] = []byte("<html>")
		if _, err := Fetch(web.get, f.Timestamp, 1, group, place); needed && missing.Name[:4] != "dev/" && missing.Name != "1.targets.json" && err == nil {
			t.Errorf("with another %s: no error", missing.Name)
		}
	}
	if _, err := Fetch(server{}.get, []byte("<html>"), 1, group, place); err == nil {
		t.Error("a page is a timestamp")
	}
}
