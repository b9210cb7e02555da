package hook

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// reasons is a Recorder that keeps why each record was written.
type reasons []string

func (r *reasons) Record(_ context.Context, rec *record.Record, _ []byte, _ []string) error {
	*r = append(*r, string(rec.Kind)+" "+rec.Verdict+": "+rec.Reason)
	return nil
}

// production is a policy of which only the profile matters.
type production struct{ gate.Policy }

func (production) Profile() gate.Profile { return gate.Production }

// A call that passed the hook because its server is governed, and ran without coming there, is
// reported once. One that the agent's user refused, or is still asked about, is not.
func TestPassedAndNeverCame(t *testing.T) {
	const unjudged = "unseen unjudged: passed at the hook, never came to its server: `files/write`"
	write := func(mode string) *agenthook.Event {
		return &agenthook.Event{Kind: agenthook.Before, ID: "1", Mode: mode, Writer: "claude-code", Tool: "mcp__files__write", Input: []byte("{}")}
	}
	arrives := func(session, server, tool string) func(*agent) {
		return func(a *agent) {
			a.registry.Arrived(&gate.Call{Message: gate.Message{Subject: tool}, Case: gate.Case{Session: session, Server: server}})
		}
	}
	waits := func(d time.Duration) func(*agent) { return func(*agent) { time.Sleep(d) } }
	ran := func(a *agent) {
		e := write("")
		e.Kind = agenthook.After
		a.ran(e)
	}
	another := func(a *agent) {
		e := write("")
		e.ID = "2"
		a.ran(e)
	}
	leaves := func(a *agent) { a.end(errLeft) }
	for name, tt := range map[string]struct {
		mode    string
		happens []func(*agent)
		want    string
	}{
		"comes":                      {"bypassPermissions", []func(*agent){arrives("s", "files", "write"), waits(time.Hour), ran, leaves}, ""},
		"comes in time":              {"bypassPermissions", []func(*agent){waits(29 * time.Second), arrives("s", "files", "write"), waits(time.Hour)}, ""},
		"does not come":              {"bypassPermissions", []func(*agent){waits(29 * time.Second), waits(2 * time.Second), ran, leaves}, unjudged},
		"has not come yet":           {"bypassPermissions", []func(*agent){waits(29 * time.Second)}, ""},
		"does not come, and leaves":  {"bypassPermissions", []func(*agent){leaves}, unjudged},
		"the daemon stops":           {"bypassPermissions", []func(*agent){func(a *agent) { a.registry.Stop() }}, ""},
		"comes in another session":   {"bypassPermissions", []func(*agent){arrives("t", "files", "write"), waits(time.Minute)}, unjudged},
		"comes to another server":    {"bypassPermissions", []func(*agent){arrives("s", "web", "write"), waits(time.Minute)}, unjudged},
		"another tool comes":         {"bypassPermissions", []func(*agent){arrives("s", "files", "read"), waits(time.Minute)}, unjudged},
		"the user is asked":          {"default", []func(*agent){waits(time.Hour)}, ""},
		"the user is asked, refuses": {"default", []func(*agent){waits(time.Hour), leaves}, ""},
		"runs, and did not come":     {"default", []func(*agent){waits(time.Hour), ran}, unjudged},
		"comes and runs":             {"", []func(*agent){waits(time.Hour), arrives("s", "files", "write"), ran, leaves}, ""},
		"the user is asked for days": {"default", []func(*agent){waits(25 * time.Hour), ran}, ""},
		"another call runs":          {"", []func(*agent){another, waits(time.Hour), leaves}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got reasons
				r := New(Options{Recorder: &got, Logger: slog.New(slog.DiscardHandler), Redact: strings.Clone})
				g := &gate.Gate{Policy: func() gate.Policy { return production{} }}
				a := &agent{registry: r, contract: agenthook.Of("claude-code"), joined: &session.Joined{Attachment: g.Attach(t.Context(), gate.Shim{}, nil)}}
				a.joined.Shim.Session = "s"
				a.life, a.end = context.WithCancelCause(r.ctx)
				e := write(tt.mode)
				call, err := a.contract.Call(e)
				if err != nil || !a.awaits(e, call) {
					t.Fatal(err)
				}
				for _, happens := range tt.happens {
					happens(a)
					synctest.Wait()
				}
				if text := strings.Join(got, ", "); text != tt.want {
					t.Errorf("recorded %q, want %q", text, tt.want)
				}
				if shown := r.Unseen(); len(shown) != len(got) || len(shown) > 0 && !strings.HasSuffix(tt.want, shown[0].Text) {
					t.Errorf("shown %+v", shown)
				}
				a.end(errLeft)
				r.Close()
			})
		})
	}
}

// If too many calls are waited for, the others are judged at the hook.
func TestAwaitedAreBounded(t *testing.T) {
	r := New(Options{})
	defer r.Close()
	a := &agent{registry: r, contract: agenthook.Of("claude-code"), joined: &session.Joined{}, life: r.ctx}
	for range maxAwaited {
		if !a.awaits(&agenthook.Event{}, &agenthook.Call{}) {
			t.Fatal("it is not waited for")
		}
	}
	if a.awaits(&agenthook.Event{}, &agenthook.Call{}) {
		t.Error("one too many is waited for")
	}
}

// Agents replace characters in the names of tools.
func TestIsNamed(t *testing.T) {
	for _, test := range []struct {
		agents, servers string
		want            bool
	}{{"read", "read", true}, {"files_read", "files.read", true}, {"a_b", "a b", true}, {"read", "write", false}, {"read", "read2", false}} {
		if got := isNamed(test.agents, test.servers); got != test.want {
			t.Errorf("%s for %s: %v", test.agents, test.servers, got)
		}
	}
}
