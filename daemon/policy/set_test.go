package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

func TestFilesDigestAndChanges(t *testing.T) {
	path := folder(t, map[string]string{
		config.FileName:     "schema: 1\nprofile: ${P:-production}\n",
		"policies/a.cedar":  "permit (principal, action, resource);\n",
		"policies/b.cedar":  "// nothing\n",
		"policies/.#a":      "an editor's",
		"policies/c.cedar~": "an editor's",
	})
	build := func(profile string) *Set {
		t.Helper()
		cfg, ds := config.Load(path, func(string) string { return profile })
		if cfg == nil {
			t.Fatal(ds)
		}
		s, ds := Load(cfg)
		if s == nil {
			t.Fatal(ds)
		}
		return s
	}
	s := build("")
	dir := filepath.Dir(path)
	var files []string
	for _, f := range s.Files() {
		rel, err := filepath.Rel(dir, f.Path)
		if err != nil || len(f.Digest) != 64 {
			t.Errorf("file: got %+v", f)
		}
		files = append(files, rel)
	}
	if got, want := strings.Join(files, " "), "thoughtgate.yaml policies/a.cedar policies/b.cedar"; got != want {
		t.Errorf("files: got %s, want %s", got, want)
	}
	if got := s.Changed(); len(got) > 0 {
		t.Errorf("nothing has changed: got %v", got)
	}
	if again := build(""); again.Digest() != s.Digest() {
		t.Error("the same files have another digest")
	}
	if other := build("development"); other.Digest() == s.Digest() {
		t.Error("another value of a variable has the same digest")
	}

	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("policies/a.cedar", "forbid (principal, action, resource);\n")
	write("policies/new.cedar", "")
	if err := os.Remove(filepath.Join(dir, "policies/b.cedar")); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "policies/a.cedar"), filepath.Join(dir, "policies/b.cedar"), filepath.Join(dir, "policies/new.cedar")}
	if got := s.Changed(); !slices.Equal(got, want) {
		t.Errorf("changed: got %v, want %v", got, want)
	}
	if changed := build(""); changed.Digest() == s.Digest() {
		t.Error("another policy has the same digest")
	}
	d := s.Describe()
	if d.Source != path || d.Policies != 1 || d.Digest != s.Digest() || len(d.Files) != 3 {
		t.Errorf("Describe: got %+v", d)
	}
}

// Policy files need the same permissions as the configuration.
func TestPolicyFilesOfOthers(t *testing.T) {
	path := folder(t, map[string]string{config.FileName: "schema: 1\n", "policies/a.cedar": "permit (principal, action, resource);\n"})
	if err := os.Chmod(filepath.Join(filepath.Dir(path), "policies/a.cedar"), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg, ds := config.Load(path, os.Getenv)
	if cfg == nil {
		t.Fatal(ds)
	}
	if s, ds := Load(cfg); s != nil || len(ds) != 1 || !strings.Contains(ds[0].String(), "is writable by everybody") {
		t.Errorf("got %v", ds)
	}
}

// A set judges in many goroutines at once.
//
//gotest:race it is used at the same time
func TestConcurrentUse(t *testing.T) {
	s := load(t, cedarYAML, cedarPolicies)
	calls := []*gate.Call{
		toolCall(t, "prod", "delete_db", `{}`), toolCall(t, "db", "update", `{"table":"users"}`),
		fromAgent(t, "fs", "resources/read", `{"uri":"file:///etc/x"}`), toolCall(t, "fs", "pay", `{}`),
	}
	want := make([]string, len(calls))
	for i, c := range calls {
		want[i] = judge(s, c)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50 {
				for i, c := range calls {
					if got := inShort(s.Rule(context.Background(), c, nil)); got != want[i] {
						t.Errorf("got %s, want %s", got, want[i])
					}
					s.Visible(c, "tools", c.Subject)
				}
			}
		})
	}
	wait.Wait()
}

// waning is a context that is done after a number of checks.
type waning struct {
	context.Context
	left int
}

func (w *waning) Err() error {
	if w.left--; w.left < 0 {
		return context.Canceled
	}
	return nil
}

// Rules are not matched for a call whose context is done.
func TestRuleStopsWithItsContext(t *testing.T) {
	var rules strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rules, "    - match: \"none%d\"\n      action: deny\n", i)
	}
	s := load(t, "schema: 1\ngovernance:\n  defaults: {action: forward}\n  rules:\n"+rules.String(), "")
	c := toolCall(t, "fs", "read", `{}`)
	if r, err := s.Rule(context.Background(), c, nil); err != nil || r.Move != gate.Forward {
		t.Fatalf("got %v, %v", r.Move, err)
	}
	ctx := &waning{context.Background(), 50}
	if r, err := s.Rule(ctx, c, nil); err == nil || r.Move != 0 {
		t.Errorf("got %v, %v", r.Move, err)
	}
	if ctx.left < -5 {
		t.Errorf("went on for %d rules", -ctx.left)
	}
}
