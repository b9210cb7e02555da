package session

import (
	"context"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const aProtection = "1a571a571a571a571a571a571a571a57"

// covering returns a registry that knows a protection of Claude Code's servers files and mail.
func covering(t *testing.T, w *world) *Registry {
	r := w.registry(t)
	r.covers = func(id, server string) (string, bool) {
		return "claude-code", id == aProtection && (server == "files" || server == "mail")
	}
	return r
}

// enter joins a shim that names a session and is a child of parent.
func enter(t *testing.T, r *Registry, attachment, session, server string, peer Process, line ...Process) *Joined {
	t.Helper()
	h := Hello{Shim: gate.Shim{Attachment: attachment, Session: session, Server: server, Project: "/p"}, Peer: peer, Line: append([]Process{peer}, line...)}
	if len(line) > 0 {
		h.Parent = line[0]
	}
	j, err := r.Join(context.Background(), h, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// The shims of one run of a protected agent form one session, and those of another run another. The
// next daemon gives them the same names.
func TestProtectedRuns(t *testing.T) {
	agent, other := Process{PID: 1000100, Start: 1}, Process{PID: 1000200, Start: 1}
	w := newWorld()
	r := covering(t, w)
	a := enter(t, r, "attachment-of-files-1", aProtection, "files", Process{PID: 1000101, Start: 2}, agent)
	b := enter(t, r, "attachment-of-mail-11", aProtection, "mail", Process{PID: 1000102, Start: 2}, agent)
	c := enter(t, r, "attachment-of-files-2", aProtection, "files", Process{PID: 1000201, Start: 2}, other)
	if a.Shim.Agent != "claude-code" || a.Shim.Session == "" || a.Shim.Session == aProtection || a.Shim.Limit != "" || a.Lasts != aProtection {
		t.Errorf("got %+v", a.Shim)
	}
	if a.Shim.Session != b.Shim.Session || a.Shim.Session == c.Shim.Session {
		t.Errorf("sessions %s, %s and %s", a.Shim.Session, b.Shim.Session, c.Shim.Session)
	}
	runs := r.AgentRuns()
	if len(runs) != 2 || runs[0].Attached != 2 || runs[0].PID != agent.PID || runs[0].Protection != aProtection || runs[1].Attached != 1 {
		t.Errorf("got %+v", runs)
	}
	for _, at := range r.Attachments() {
		if at.Lasts != aProtection {
			t.Errorf("%s: protection %q", at.Shim.Server, at.Lasts)
		}
	}
	// Its memory is deleted with its last shim.
	r.End(a, "left", "")
	if len(w.forgot) != 0 {
		t.Errorf("forgot %q", w.forgot)
	}
	r.End(b, "left", "")
	if len(w.forgot) != 1 || w.forgot[0] != b.Shim.Session+"/"+b.Shim.Attachment {
		t.Errorf("forgot %q", w.forgot)
	}
	r.Close()
	next := covering(t, newWorld())
	defer next.Close()
	again := enter(t, next, "attachment-of-files-1", aProtection, "files", Process{PID: 1000101, Start: 2}, agent)
	if again.Shim.Session != a.Shim.Session {
		t.Errorf("the next daemon calls it %s, not %s", again.Shim.Session, a.Shim.Session)
	}
}

// What a shim says about a protection is a claim: a shim that names another server, or an unknown
// protection, belongs to no session.
func TestProtectedClaims(t *testing.T) {
	r := covering(t, newWorld())
	defer r.Close()
	agent := Process{PID: 1000100, Start: 1}
	for _, test := range []struct{ session, server string }{{aProtection, "evil"}, {anID, "files"}, {"", "files"}} {
		j := enter(t, r, "attachment-"+anID, test.session, test.server, Process{PID: 1000101, Start: 2}, agent)
		if j.Shim.Session != "" || j.Shim.Agent != "" || j.Lasts != "" {
			t.Errorf("%+v: got %+v", test, j.Shim)
		}
		r.End(j, "left", "")
	}
	if runs := r.AgentRuns(); len(runs) != 0 {
		t.Errorf("got %+v", runs)
	}
}

// Below a wrap of its agent, a protected server belongs to the wrap.
func TestProtectedBelowAWrap(t *testing.T) {
	r := covering(t, newWorld())
	defer r.Close()
	spec := aSpec
	spec.Agent, spec.Profile = "claude-code", gate.Development
	s, err := r.Open(context.Background(), aWrap, spec)
	if err != nil {
		t.Fatal(err)
	}
	agent := Process{PID: 1000100, Start: 1}
	j := enter(t, r, "attachment-of-files-1", aProtection, "files", Process{PID: 1000101, Start: 2}, agent, aWrap)
	if j.Shim.Session != anID || j.Shim.Project != "/p" || j.Shim.Limit != gate.Development || j.Lasts != aProtection {
		t.Errorf("got %+v", j.Shim)
	}
	if runs := r.AgentRuns(); len(runs) != 0 {
		t.Errorf("a run beside the wrap: %+v", runs)
	}
	r.End(j, "left", "")
	r.Leave(s)
}

// A shim that descends from a wrap has the wrap's session, agent, project and profile, whatever it
// names. A shim that does not, and names nothing known, has none.
func TestInheritedWithinAWrap(t *testing.T) {
	r := covering(t, newWorld())
	defer r.Close()
	spec := aSpec
	spec.Project, spec.Profile = "/wrapped", gate.Development
	s, err := r.Open(context.Background(), aWrap, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Leave(s)
	other := aSpec
	other.ID, other.Agent, other.Project, other.Outlasting = two, "cursor", "/other", true
	o, err := r.Open(context.Background(), Process{PID: 1000300, Start: 1}, other)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Leave(o)
	agent, below := Process{PID: 1000100, Start: 1}, Process{PID: 1000101, Start: 1}
	for _, names := range []string{"", anID, one, aProtection, two} {
		j := enter(t, r, "attachment-"+anID, names, "files", Process{PID: 1000102, Start: 2}, below, agent, aWrap)
		if got := j.Shim; got.Session != anID || got.Agent != "custom" || got.Project != spec.Project || got.Limit != gate.Development || got.Claimed {
			t.Errorf("one that names %q: got %+v", names, got)
		}
		if got, want := j.Lasts, map[string]string{aProtection: aProtection}[names]; got != want {
			t.Errorf("one that names %q counts for protection %q", names, got)
		}
		r.End(j, "left", "")
	}
	for _, names := range []string{"", anID, one} {
		j := enter(t, r, "attachment-"+anID, names, "files", Process{PID: 1000102, Start: 2}, below, agent)
		if j.Shim.Session != "" || j.Shim.Agent != "" {
			t.Errorf("outside, one that names %q: got %+v", names, j.Shim)
		}
		r.End(j, "left", "")
	}
}

// Sessions of protected agents are distinguished by protection, process and start time, and count
// only for a wrap of the same agent.
func TestWhoseRunAShimIsOf(t *testing.T) {
	agent := Process{PID: 1000100, Start: 1}
	for name, other := range map[string]string{
		"another protection":   sessionOf("q", agent),
		"another process":      sessionOf("p", Process{PID: 1000101, Start: 1}),
		"a process begun anew": sessionOf("p", Process{PID: 1000100, Start: 2}),
	} {
		if other == sessionOf("p", agent) {
			t.Errorf("%s has the same session", name)
		}
	}
	for _, of := range []string{"custom", "claude-code"} {
		r := covering(t, newWorld())
		spec := aSpec
		spec.Agent, spec.Outlasting = of, true
		s, err := r.Open(context.Background(), aWrap, spec)
		if err != nil {
			t.Fatal(err)
		}
		hello := func(peer Process) Hello {
			return Hello{Shim: gate.Shim{Session: aProtection, Server: "files"}, Peer: peer, Parent: Process{PID: 1}, Line: []Process{peer, {PID: aWrap.PID, Start: 99}}}
		}
		r.mu.Lock()
		one, _, claims := r.member(hello(Process{PID: 1000101, Start: 2}))
		two, _, _ := r.member(hello(Process{PID: 1000102, Start: 2}))
		r.mu.Unlock()
		if (claims != "") != (of == "claude-code") {
			t.Errorf("it counts for %q, a wrap of %s", claims, of)
		}
		if one.Session == anID {
			t.Error("below a process that has the wrap's number now, it is of the wrap")
		}
		if one.Session == two.Session {
			t.Error("two whose agents have gone are one run")
		}
		r.Leave(s)
		r.Close()
	}
}
