package extension_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

func TestHooksInTheirOrder(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	log := filepath.Join(t.TempDir(), "log")
	h.install(fake.Extension{Name: "second", Modes: []string{"modify", "log=" + log}, Manifest: "order: 20\nhooks: {before: {tools: 'write_*'}, after: {servers: [files]}}\n"})
	h.install(fake.Extension{Name: "first", Modes: []string{"modify"}, Manifest: "order: 10\nhooks: {before: {}}\n"})

	c := call(t, "files", "write_file", `{"path":"/tmp/x"}`)
	if !h.Wants(c, false) || !h.Wants(c, true) || h.Wants(call(t, "web", "x", `{}`), true) {
		t.Error("Wants does not say what the manifests do")
	}
	if who := strings.Join(h.Who(c, false), " ") + ", " + strings.Join(h.Who(c, true), " "); who != "first second, second" {
		t.Errorf("who: %s", who)
	}
	got := h.Before(t.Context(), c)
	if got.Move != gate.Forward || string(got.Changed) != `{"path":"/tmp/x","seen_by":"first second"}` || strings.Join(got.By, " ") != "first second" || got.Failed != nil {
		t.Errorf("before: %+v, %s", got, got.Changed)
	}
	got = h.Before(t.Context(), call(t, "files", "read_file", `{}`))
	if string(got.Changed) != `{"seen_by":"first"}` || strings.Join(got.By, " ") != "first" {
		t.Errorf("before read_file: %+v, %s", got, got.Changed)
	}
	got = h.After(t.Context(), c, []byte(`{"content":[]}`))
	if got.Move != gate.Forward || string(got.Changed) != `{"content":[],"seen_by":"second"}` {
		t.Errorf("after: %+v, %s", got, got.Changed)
	}
	if saw, err := os.ReadFile(log); err != nil || string(saw) != "hook.before write_file\nhook.after write_file\n" {
		t.Errorf("the second saw %q, %v", saw, err)
	}

	// No hook is left once both are removed.
	for _, name := range []string{"first", "second"} {
		if _, err := h.Remove(t.Context(), name, true, extension.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	if h.Wants(c, false) || h.Wants(c, true) {
		t.Error("removed extensions want to see calls")
	}
}

// Whatever an extension does with a call, either it judges the call or the call is denied,
// unless its manifest says otherwise.
func TestHooksOfThoseThatMisbehave(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode  string
		says  string // part of the reason
		twice bool   // the first call may be judged
	}{
		{"block", `the extension "x" denied it: told to block`, false},
		{"malformed", "its answer is invalid: the action is modify, but arguments is not a JSON object", false},
		{"error", "it answered with the error told to fail (-1)", false},
		{"crash", "it ended before it answered", false},
		{"garbage", "it ended before it answered", false},
		{"garble", "it ended before it answered", false},
		{"too-long", "it ended before it answered", false},
		{"crash-start", "it has failed", false},
		{"version", "it has failed", false},
		{"twice", "", true},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t).start()
			h.install(fake.Extension{Name: "x", Modes: []string{test.mode}})
			c := call(t, "files", "write_file", `{}`)
			got := h.Before(t.Context(), c)
			if test.twice {
				// The first answer counts; after a second one the connection is closed.
				h.until("it is started again", func() bool { v, _ := h.Get("x"); return v.Status.Restarts > 0 })
				return
			}
			if got.Move != gate.Deny || !strings.Contains(got.Reason, test.says) || !strings.Contains(got.Reason, `"x"`) || strings.Join(got.By, "") != "x" {
				t.Errorf("before: %+v", got)
			}
			if test.mode == "block" {
				got = h.After(t.Context(), c, []byte(`{"content":[]}`))
				if got.Move != gate.Deny || !strings.Contains(got.Reason, test.says) {
					t.Errorf("after: %+v", got)
				}
			}
		})
		if test.twice || test.mode == "block" {
			continue
		}
		t.Run(test.mode+" that may", func(t *testing.T) {
			t.Parallel()
			h := newFixture(t).start()
			h.install(fake.Extension{Name: "x", Modes: []string{test.mode}, Manifest: "hooks: {before: {on_error: continue}}\nrestart: {first: 10ms, most: 20ms}\n"})
			got := h.Before(t.Context(), call(t, "files", "write_file", `{}`))
			if got.Move != gate.Forward || got.Changed != nil || len(got.Failed) != 1 || !strings.HasPrefix(got.Failed[0], "x: ") || !strings.Contains(got.Failed[0], test.says) {
				t.Errorf("before: %+v", got)
			}
		})
	}
}

// Those that do not answer take the whole timeout, so they are asked concurrently.
func TestHooksOfThoseThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hang", "deaf", "flood-host"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.hurried = true
			h.start()
			h.install(fake.Extension{Name: "x", Modes: []string{mode, "hang"}})
			got := h.Before(t.Context(), call(t, "files", "write_file", `{}`))
			if got.Move != gate.Deny || !strings.Contains(got.Reason, "it did not answer within 5s") && !strings.Contains(got.Reason, "ended") {
				t.Errorf("before: %+v", got)
			}
		})
	}
}

// An extension that floods its output still answers, and affects no other.
func TestFloods(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"flood", "flood-errors"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t).start()
			h.install(fake.Extension{Name: "x", Modes: []string{mode}, Manifest: "hooks: {before: {servers: [flooded]}}\n"})
			h.install(fake.Extension{Name: "y"})
			flooded := make(chan gate.Hooked, 1)
			go func() { flooded <- h.Before(t.Context(), call(t, "flooded", "x", `{}`)) }()
			for range 20 {
				if got := h.Before(t.Context(), call(t, "files", "write_file", `{}`)); got.Move != gate.Forward {
					t.Errorf("the other: %+v", got)
				}
			}
			if tail, ok := h.Fleet().Tail(supervise.KindExtension, "x", ""); ok && mode == "flood-errors" {
				h.until("its standard error is kept, with its escapes made visible", func() bool {
					lines := tail.Lines()
					return len(lines) > 0 && strings.Contains(lines[0].Text, `complaint \x1b[31m`)
				})
			}
			if got := <-flooded; got.Move == gate.Deny && !strings.Contains(got.Reason, "did not answer within 5s") {
				t.Errorf("the flooding one: %+v", got)
			}
		})
	}
}

// Wants is called for every call: it must not allocate. Nothing else runs meanwhile.
func TestWantsAllocatesNothing(t *testing.T) {
	h := newFixture(t)
	h.open()
	for _, name := range []string{"a", "b"} {
		if _, err := h.Install(t.Context(), h.source(fake.Extension{Name: name, Manifest: "hooks: {before: {servers: 'x*', tools: ['a?c*', '[de]*']}, after: {methods: 'prompts/*'}}\n"}), nil, extension.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	c := call(t, "files", "write_file", `{}`)
	if n := testing.AllocsPerRun(100, func() { h.Wants(c, false); h.Wants(c, true) }); n >= 1 {
		t.Errorf("it allocates %v times", n)
	}
}

func BenchmarkWants(b *testing.B) {
	for _, n := range []int{0, 1, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := newFixture(b)
			h.open()
			for i := range n {
				e := fake.Extension{Name: fmt.Sprint("x", i), Manifest: "hooks: {before: {tools: 'read_*'}}\n"}
				if _, err := h.Install(b.Context(), h.source(e), nil, extension.Actor{}); err != nil {
					b.Fatal(err)
				}
			}
			c := call(b, "files", "write_file", `{}`)
			for b.Loop() {
				h.Wants(c, false)
			}
		})
	}
}
