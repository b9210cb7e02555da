package doctor

import (
	"errors"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/fleet"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/test/pictures"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// brokenFixtures maps the id of each kind of finding to a function that breaks a fixture in that way.
var brokenFixtures = map[string]func(*fixture){
	"daemon.stopped": func(h *fixture) { h.stop() },
	"daemon.unreachable": func(h *fixture) {
		h.stop()
		h.Write("run/thoughtgate/control.sock", "no socket", 0o600)
	},
	"daemon.lock": func(h *fixture) { h.remove("run/thoughtgate/thoughtgated.lock") },
	"daemon.warning": func(h *fixture) {
		h.fake.Status.Warnings = []string{"the audit section has changed; start the daemon again"}
	},

	"version.daemon":  func(h *fixture) { h.fake.Status.Build = "v0.0.9" },
	"version.shim":    func(h *fixture) { h.world.version = "v0.0.9" },
	"version.no-shim": func(h *fixture) { h.remove("bin/tg-shim") },
	"version.attached": func(h *fixture) {
		h.fake.Processes = []*pb.Process{{Kind: "server", Name: "files", Server: "files", Build: "v0.0.9"}}
	},

	"service.failed": func(h *fixture) {
		h.world.service = service.State{Manager: "systemd", Definition: "/u", Failed: true}
	},
	"service.other": func(h *fixture) {
		h.world.service = service.State{Manager: "systemd", Definition: "/u"}
	},
	"service.restarts": func(h *fixture) {
		h.world.service = service.State{Manager: "systemd", Definition: "/u", PID: 4711, Restarts: 3}
	},
	"service.linger": func(h *fixture) {
		h.world.service = service.State{Manager: "systemd", Definition: "/u", PID: 4711, Enabled: true}
		h.world.remote = "192.0.2.1 22"
	},
	"log.errors":     func(h *fixture) { h.world.errors = []string{"level=ERROR msg=\"it hangs\x1b[2J\""} },
	"log.unreadable": func(h *fixture) { h.world.failure = errors.New("permission denied") },

	"folders.open":   func(h *fixture) { h.chmod(".local/state/thoughtgate", 0o755) },
	"folders.socket": func(h *fixture) { h.fake.Status.ShimSocket = h.Write("elsewhere/shim.sock", "", 0o600) },
	"folders.config": func(h *fixture) {
		h.Write(".config/thoughtgate/thoughtgate.yaml", "schema: 1\n", 0o600)
		h.chmod(".config/thoughtgate/thoughtgate.yaml", 0o666)
	},

	"disk.full":     func(h *fixture) { h.world.space.Free = 3 << 20 },
	"disk.readonly": func(h *fixture) { h.world.denied = syscall.EROFS },
	"disk.low":      func(h *fixture) { h.world.space.Files = 12 },
	"disk.unknown":  func(h *fixture) { h.world.failure = errors.New("input/output error") },

	"clock.back": func(h *fixture) {
		if err := os.Chtimes(h.log(h.fake.Records...), consoletest.Noon, consoletest.Noon.Add(time.Hour)); err != nil {
			h.T.Fatal(err)
		}
	},
	"clock.stepped": func(h *fixture) { h.world.age = 25 * time.Hour },

	"record.failing": func(h *fixture) { h.fake.Status.AuditFailure = "write audit log: no space left on device" },
	"record.broken": func(h *fixture) {
		h.fake.Records[1].Line = []byte(strings.Replace(string(h.fake.Records[1].GetLine()), "deny", "pass", 1))
		h.log(h.fake.Records...)
		h.fake.Records = canarySong(h)
	},
	"record.unreadable": func(h *fixture) { h.remove(".local/state/thoughtgate/audit/000001.jsonl") },
	"record.gap": func(h *fixture) {
		h.log(consoletest.Chained([]record.Record{{Kind: record.KindLog, Log: "5f3a", Time: consoletest.Noon}, {Kind: record.KindGap, Time: consoletest.Noon}})...)
	},

	"policy.invalid": func(h *fixture) {
		h.fake.Validate = &pb.ValidateResponse{Problems: []*pb.Diagnostic{
			{File: "/etc/t.yaml", Line: 2, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: "unknown key \"acton\""},
			{File: "/etc/t.yaml", Line: 3, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: "and more"}}}
	},
	"policy.unchecked": func(h *fixture) { h.stop(); h.remove("bin/thoughtgated") },
	"policy.warning": func(h *fixture) {
		h.fake.Validate = &pb.ValidateResponse{Problems: []*pb.Diagnostic{
			{File: "/etc/t.yaml", Line: 2, Column: 1, Severity: pb.Severity_SEVERITY_WARNING, Message: "no server \"fils\" has been seen yet", Hint: "did you mean \"files\"?"}}}
	},
	"policy.changed": func(h *fixture) {
		h.fake.Status.Set = consoletest.InForce()
		h.fake.Status.Set.Refused = nil
		h.fake.Status.Warnings = []string{"/home/ana/.config/thoughtgate/policies/db.cedar has changed and is not in force; look at it"}
	},
	"policy.reload":      func(h *fixture) { h.fake.Status.ReloadFailure = "unknown key" },
	"policy.development": func(h *fixture) { h.fake.Status.Set.Profile = "development" },
	"policy.refused": func(h *fixture) {
		h.fake.Status.Set.Refused = consoletest.InForce().GetRefused()
	},
	"policy.project": func(h *fixture) {
		h.fake.Status.Projects = []*pb.ProjectFile{{Path: "/home/ana/shop/.thoughtgate.yaml", Rules: 3},
			{Path: "/home/ana/evil\x1b[2J/.thoughtgate.yaml", Problems: []*pb.Diagnostic{
				{File: "/home/ana/evil\x1b[2J/.thoughtgate.yaml", Line: 2, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: "the file may not say \"profile\""}}}}
	},

	"agents.ungoverned": func(h *fixture) { h.Write(".claude.json", `{"mcpServers":{"clock":{"command":"clock-mcp"}}}`, 0o600) },
	"agents.tools": func(h *fixture) {
		h.Write(".claude.json", "{}", 0o600)
		h.fake.Protected = []*pb.Protection{{Id: "1", Agent: "claude-code", Paths: []string{h.path(".claude.json")}, Shim: h.Shim}}
	},
	"agents.project": func(h *fixture) {
		h.Write(".claude.json", "{}", 0o600)
		h.Write("src/shop/.mcp.json", `{"mcpServers":{"shop":{"command":"shop-mcp"}}}`, 0o600)
	},
	"agents.beyond": func(h *fixture) {
		h.Write(".claude.json", `{"mcpServers":{"web":{"type":"ws","url":"wss://example.test"}}}`, 0o600)
	},
	"agents.unreadable": func(h *fixture) { h.Write(".claude.json", "{\n  \"mcpServers\": [\x1b[2J", 0o600) },
	"agents.past":       func(h *fixture) { h.fake.Status.Ungoverned = 2 },
	"agents.protection": func(h *fixture) {
		h.fake.Protected = []*pb.Protection{{Id: "1", Agent: "custom", Paths: []string{"/srv/mcp.json"}, Shim: "/bin/echo", Problem: "its lines name the socket /a"}}
	},

	"leftovers.lines": func(h *fixture) { lostProtection(h); h.remove(".claude.json.thoughtgate-backup") },
	"leftovers.wrap": func(h *fixture) {
		h.fake.Sessions = consoletest.OpenSessions()[1:]
		h.fake.Sessions[0].Spec.Files = []*pb.ConfigFile{{Path: h.path("mcp.json")}}
	},
	"leftovers.backup": func(h *fixture) { lostProtection(h); h.Write(".claude.json", "{}", 0o600) },
	"leftovers.lock":   func(h *fixture) { h.Write(".claude.json.thoughtgate-lock", "", 0o600) },
	"leftovers.temp":   func(h *fixture) { h.Write(".claude.json.thoughtgate-new-17", "", 0o600) },
	"leftovers.copy": func(h *fixture) {
		h.Write(".claude.json", "{}", 0o600)
		h.Write(".claude.json.orig", `{"mcpServers":{"clock":{"command":"/bin/tg-shim","args":["--server-id","clock","--","clock-mcp"],"env":{"THOUGHTGATE_SOCKET":"/s","THOUGHTGATE_SESSION":"5d41"}}}}`, 0o600)
	},
	"leftovers.altered": func(h *fixture) { h.Write(".claude.json.thoughtgate-altered", "{}", 0o600) },

	"extension.failed": func(h *fixture) {
		h.fake.Ext.Installed = []*pb.Extension{consoletest.Scrubber()}
		h.fake.Ext.Installed[0].Process.State, h.fake.Ext.Installed[0].Process.Error = "failed", "it ended: exit status 1\x1b[2J"
	},
	"extension.changed": func(h *fixture) {
		h.fake.Ext.Installed = consoletest.InstalledExtensions()[1:2]
		h.fake.Status.Warnings = []string{"the extension quota is not run: it has changed since it was installed"}
	},
	"extension.missing": func(h *fixture) { h.fake.Ext.Installed = consoletest.InstalledExtensions()[:1] },
	"shared.failed": func(h *fixture) {
		h.fake.Processes = []*pb.Process{{Kind: "backend", Name: "github", State: "failed", Error: "it ended: exit status 1\x1b[2J"}}
	},
	"remote.failed": func(h *fixture) {
		h.fake.Processes = []*pb.Process{{Kind: "remote", Name: "cloud", Agent: "cursor", Build: ui.Release, State: "degraded", Error: "no connection after 10s\x1b[2J"}}
	},

	"login.wanted": func(h *fixture) {
		brokenLogin(h, pb.LoginPhase_LOGIN_PHASE_WANTED, "its issuer has ended the login\x1b[2J")
		h.fake.Status.Warnings = []string{"github wants a login: its issuer has ended the login; log in with: tgctl login github"}
	},
	"login.failing": func(h *fixture) {
		brokenLogin(h, pb.LoginPhase_LOGIN_PHASE_FAILING, "accounts.example answers with status 500")
	},
	"login.ending": func(h *fixture) { brokenLogin(h, pb.LoginPhase_LOGIN_PHASE_ENDING, "its issuer does not renew it") },
	"login.unreadable": func(h *fixture) {
		h.fake.Logins = &pb.ListLoginsResponse{Place: &pb.TokenPlace{Problem: "read the stored logins: permission denied\x1b[2J"}}
	},
	"login.file": func(h *fixture) {
		h.fake.Logins = &pb.ListLoginsResponse{Place: &pb.TokenPlace{Stored: 2, Why: "the keyring can't be used: there is no session bus\x1b[2J"}}
	},

	"phone.unreadable": func(h *fixture) { h.phone("http://ntfy.example\x1b[2J") },
	"phone.unreachable": func(h *fixture) {
		gone := httptest.NewServer(nil)
		gone.Close()
		h.phone(gone.URL)
	},

	"fleet.stopped": func(h *fixture) { h.inFleet(fleet.CourierState{}) },
	"fleet.failing": func(h *fixture) { h.inFleet(fleet.CourierState{Running: true, LastError: "no route\x1b[2J"}) },
	"fleet.fork": func(h *fixture) {
		h.inFleet(fleet.CourierState{Running: true, Connected: true, Fork: "record 7 is another\x1b[2J", LastError: "send records"})
	},
	"fleet.refused": func(h *fixture) {
		h.inFleet(fleet.CourierState{Running: true, Connected: true})
		h.fake.Status.Fleet.Failure = "the key of the group has not signed it\x1b[2J"
	},

	"approver.not-enrolled": func(h *fixture) {
		h.fake.Set.Detail = &pb.PolicyDetail{Workflows: []*pb.PolicyWorkflow{{Name: "ops", Require: "presence"}, {Name: "any", Require: "any"}}}
	},
	"approver.locked": func(h *fixture) {
		h.fake.Status.Presence = &pb.PresenceState{Enrolled: true, Failures: 5, Locked: durationpb.New(10 * time.Minute)}
	},
	"approver.recovered": func(h *fixture) {
		h.fake.Status.Presence = &pb.PresenceState{Enrolled: true, Recovered: consoletest.At(-time.Hour), Recoverer: "ana (uid 1000)\x1b[2J"}
	},

	"kernel.pidfd":  func(h *fixture) { h.world.kernel = host.Kernel{Name: "Linux 4.19.0", Ptrace: 1} },
	"kernel.peer":   func(h *fixture) { h.world.kernel.PeerPIDFD = false },
	"kernel.ptrace": func(h *fixture) { h.world.kernel.Ptrace = 0 },
	"kernel.other":  func(h *fixture) { h.world.kernel = host.Kernel{Name: "Darwin 24.1.0", NotLinux: true} },

	"hooks.passed": func(h *fixture) {
		h.protectTools(func(agentconf.HookCommand, []byte) (agenthook.Output, error) { return agenthook.Output{}, nil })
	},
	"hooks.silent": func(h *fixture) {
		h.protectTools(func(agentconf.HookCommand, []byte) (agenthook.Output, error) {
			return agenthook.Output{}, errors.New("exec format error")
		})
	},
	"hooks.unrecorded": func(h *fixture) {
		h.protectTools(func(agentconf.HookCommand, []byte) (agenthook.Output, error) {
			return agenthook.Refuse("Not executed: no daemon\x1b[2J"), nil
		})
	},

	"canary.untried": func(h *fixture) { h.stop() },
	"canary.passed":  func(h *fixture) { h.world.song = canaryResult{Answer: "milk", Executed: true} },
	"canary.silent":  func(h *fixture) { h.world.canaryErr = errors.New("the server has hung up") },
	"canary.accident": func(h *fixture) {
		h.fake.Records = consoletest.Chained([]record.Record{{Kind: record.KindCall, ID: canaryID, Server: record.CanaryServer, Verdict: "deny", Reason: "the policy could not be evaluated", Time: consoletest.Noon}})
		h.fake.Records[0].Seq = h.fake.Status.AuditSeq + 1
	},
	"canary.unrecorded": func(h *fixture) { h.fake.Records = nil },
}

// canarySong is the record of a canary that was denied as it should be.
func canarySong(h *fixture) []*pb.AuditRecord {
	all := consoletest.Chained([]record.Record{{Kind: record.KindCall, ID: canaryID, Server: record.CanaryServer, Verdict: "deny", Rule: record.CanaryRule, Time: consoletest.Noon}})
	all[0].Seq = h.fake.Status.GetAuditSeq() + 1
	return all
}

// lostProtection sets up a protection that the daemon no longer knows.
func lostProtection(h *fixture) {
	h.Write(".claude.json", `{"mcpServers":{"clock":{"command":"clock-mcp"}}}`, 0o600)
	h.Protect()
}

// together maps a kind of finding to others with the same cause, which come with it.
var together = map[string][]string{
	"daemon.stopped": {"canary.untried"}, "policy.unchecked": {"daemon.stopped", "canary.untried"},
	"canary.untried": {"daemon.stopped"}, "daemon.unreachable": {"canary.untried"},
	"version.no-shim": {"canary.untried"},
	"log.unreadable":  {"disk.unknown", "version.no-shim"}, "disk.unknown": {"log.unreadable", "version.no-shim"},
}

// Doctor finds what is wrong with each broken fixture, and nothing else.
func TestDoctorFinds(t *testing.T) {
	for _, a := range findingKinds {
		t.Run(a.id, func(t *testing.T) {
			breaks := brokenFixtures[a.id]
			if breaks == nil {
				t.Fatal("no fixture has it: add one that is broken so")
			}
			h := newDoctorsFixture(t)
			breaks(h)
			all := h.findings()
			var here *finding
			for _, f := range all {
				switch {
				case f.ID == a.id:
					here = &f
				case f.Severity != gradeOK && !slices.Contains(together[a.id], f.ID):
					t.Errorf("it also finds %+v", f)
				}
			}
			if here == nil {
				t.Fatalf("it is not found, but %+v", all)
			}
			if here.Severity != a.severity || here.What == "" || here.Fix == "" || strings.Contains(here.What+here.Fix, "\n") || strings.Contains(here.Fix, "{}") {
				t.Errorf("found as %+v", here)
			}
			wantExit(t, h, a)
		})
	}
	for id := range brokenFixtures {
		if !slices.ContainsFunc(findingKinds, func(a findingKind) bool { return a.id == id }) {
			t.Errorf("%s is no ailment", id)
		}
	}
}

// wantExit checks the exit code and the output for a person.
func wantExit(t *testing.T, h *fixture, a findingKind) {
	t.Helper()
	code := h.examine()
	want := ui.ExitOK
	switch {
	case h.stopped && a.id != "daemon.unreachable":
		want = ui.ExitNotRunning
	case a.severity == gradeFail || slices.ContainsFunc(together[a.id], func(id string) bool { return strings.HasPrefix(id, "version.no") }):
		want = ui.ExitCheck
	}
	if code != want {
		t.Errorf("exit %d, want %d", code, want)
	}
	consoletest.MustFit(t, h.console.Out.String(), 80)
	if strings.ContainsAny(h.console.Out.String(), "\x1b\u202e") {
		t.Errorf("something is shown as it is: %q", h.console.Out.String())
	}
}

// The output of doctor on a terminal of 80 columns for a healthy fixture and for broken
// ones.
func TestDoctorOnATerminal(t *testing.T) {
	for name, breaks := range map[string][]string{
		"healthy": nil,
		"broken":  {"agents.ungoverned", "agents.past", "kernel.ptrace", "folders.open", "disk.low", "extension.changed", "shared.failed", "policy.warning", "policy.development", "version.daemon", "canary.passed"},
		"stopped": {"daemon.stopped", "leftovers.lines"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newDoctorsFixture(t)
			for _, id := range breaks {
				brokenFixtures[id](h)
			}
			code := h.examine()
			out := h.console.Out.String()
			consoletest.MustFit(t, out, 80)
			if name == "healthy" && (code != ui.ExitOK || !strings.HasSuffix(out, "\nNo problems found.\n")) {
				t.Errorf("exit %d", code)
			}
			t.Chdir(h.Here)
			consoletest.Golden(t, "doctor-"+name, strings.ReplaceAll(out, h.Dir, "HOME")+"--- stderr\n"+h.console.Err.String())
		})
	}
}

// What doctor prints of a healthy machine and of a broken one. `make pictures` makes these pictures.
func TestPictures(t *testing.T) {
	book := pictures.Open(t, "doctor")
	for name, breaks := range map[string][]string{"doctor": nil, "doctor-broken": {"agents.ungoverned", "kernel.ptrace", "folders.open", "disk.low", "policy.development", "canary.passed"}} {
		h := newDoctorsFixture(t)
		for _, id := range breaks {
			brokenFixtures[id](h)
		}
		h.prepare()
		h.console.Pictured(book, name, "doctor")
	}
}

// What asks natively is said beside the configuration that says so.
func TestDoctorSaysWhoAsksNatively(t *testing.T) {
	h := newDoctorsFixture(t)
	h.fake.Status.Set.Source, h.fake.Status.Set.Natively = "/etc/t.yaml", []string{"claude-code"}
	isSaid := func(f finding) bool {
		return f.ID == "policy" && strings.HasSuffix(f.What, "; claude-code asks its own user about its own tools, where it can")
	}
	if all := h.findings(); !slices.ContainsFunc(all, isSaid) {
		t.Errorf("%+v", all)
	}
}

// Every kind of finding has a fix and a line in the documentation.
func TestAilmentsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range findingKinds {
		if a.fix == "" || strings.Contains(a.fix, "\n") {
			t.Errorf("%s: the fix is %q", a.id, a.fix)
		}
		if !strings.Contains(string(page), "| `"+a.id+"` | "+a.severity+" | ") {
			t.Errorf("docs/troubleshooting.md has no line on %s, severity %s", a.id, a.severity)
		}
	}
	for line := range strings.Lines(string(page)) {
		id, ok := strings.CutPrefix(line, "| `")
		if id, _, _ = strings.Cut(id, "`"); ok && !slices.ContainsFunc(findingKinds, func(a findingKind) bool { return a.id == id }) {
			t.Errorf("docs/troubleshooting.md tells of %s, which is no ailment", id)
		}
	}
}

// brokenLogin has one login in a phase.
func brokenLogin(h *fixture, phase pb.LoginPhase, why string) {
	h.fake.Logins = &pb.ListLoginsResponse{
		Logins: []*pb.LoginState{{Server: "github", Address: "https://mcp.example/mcp", Phase: phase, Reason: why}},
		Place:  &pb.TokenPlace{Stored: 1, Keyring: true},
	}
}
