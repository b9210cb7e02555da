package session

import (
	"context"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// An agent that should run hooks is silent until one is run, also one whose wrap reopens its
// session. What a previous daemon has seen is not known, so nothing is said then.
func TestSilent(t *testing.T) {
	r := covering(t, newWorld())
	defer r.Close()
	r.covers = func(id, server string) (string, bool) {
		return "claude-code", id == aProtection && (server == "files" || server == agenthook.Server)
	}
	spec := aSpec
	spec.Tools = true
	s, err := r.Open(context.Background(), aWrap, spec)
	if err != nil {
		t.Fatal(err)
	}
	hook := func(id, session string, line ...Process) *Joined {
		t.Helper()
		j, err := r.Join(context.Background(), Hello{
			Shim: gate.Shim{Attachment: id, Session: session, Server: agenthook.Server, Host: true}, Peer: line[0], Parent: line[0], Line: line,
		}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	wrapped := func() bool { return r.List()[0].Silent }
	protected := func() bool { return r.AgentRuns()[0].Silent }

	agent := Process{PID: 1000100, Start: 1}
	server := enter(t, r, "attachment-of-files-1", aProtection, "files", Process{PID: 1000101, Start: 2}, agent)
	if !wrapped() || !protected() {
		t.Errorf("before a hook: %v, %v", wrapped(), protected())
	}
	r.began = r.began.Add(time.Hour)
	if wrapped() || protected() {
		t.Error("silent, as far as a daemon knows that was started later")
	}
	r.began = r.began.Add(-time.Hour)
	one, other := hook("attachment-of-hooks-1", "", Process{PID: 1000200, Start: 1}, aWrap), hook("attachment-of-hooks-2", aProtection, agent)
	if wrapped() || protected() {
		t.Errorf("after a hook: %v, %v", wrapped(), protected())
	}
	r.End(one, "left", "")
	r.Suspend(s)
	if s, err = r.Open(context.Background(), aWrap, spec); err != nil || wrapped() {
		t.Errorf("reopened: %v, %v", wrapped(), err)
	}
	r.End(other, "left", "")
	r.End(server, "left", "")
	r.Leave(s)
}
