package fleet

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/test/programs"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// person runs the real tgctl with a home of their own.
type person struct {
	t     *testing.T
	tgctl string
	home  string
	env   []string
}

func newPerson(t *testing.T, programs string) *person {
	t.Helper()
	home := tempdir.New(t, "", "tg-web-")
	p := &person{t: t, tgctl: filepath.Join(programs, "tgctl"), home: home, env: []string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "XDG_STATE_HOME=" + home + "/state", "XDG_RUNTIME_DIR=" + home + "/run", "PATH=" + os.Getenv("PATH"), "COLUMNS=200", "USER=ann",
	}}
	for _, dir := range []string{"config/thoughtgate", "state", "run"} {
		must(t, os.MkdirAll(filepath.Join(home, dir), 0o700))
	}
	p.write("config/thoughtgate/thoughtgate.yaml", "schema: 1\ngovernance:\n  defaults: {action: forward}\n")
	t.Cleanup(func() {
		stop := exec.Command(p.tgctl, "daemon", "stop")
		stop.Env = p.env
		_ = stop.Run() // there may be none
	})
	return p
}

func (p *person) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	must(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run runs tgctl, which must succeed, and returns what it prints and says.
func (p *person) run(in string, args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.tgctl, args...)
	var out bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, p.home, strings.NewReader(in), &out, &out
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("tgctl %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// courier runs the courier until the returned function is called.
func (p *person) courier() (stop func()) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.tgctl, "fleet", "run")
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.t.Output(), p.t.Output()
	must(p.t, cmd.Start())
	return func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("tgctl fleet run: %v", err)
		}
	}
}

// has reports whether a version of the fleet's policy is in force.
func (p *person) has(version string) bool {
	var state struct {
		Version json.Number `json:"bundle_version"`
	}
	must(p.t, json.Unmarshal([]byte(p.run("", "fleet", "status", "--json")), &state))
	return state.Version.String() == version
}

// The programs as they ship: an administrator exports a policy, a user joins by it, an agent's call is denied by it,
// and a collector gets the log.
func TestProgramsWithoutEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	dir := t.TempDir()
	must(t, programs.Build(dir, false, []string{"thoughtgated", "tg-shim", "tg-fleet", "tgctl"}))
	admin, ann := newPerson(t, dir), newPerson(t, dir)
	www, acme := filepath.Join(admin.home, "www"), filepath.Join(admin.home, "acme")
	must(t, os.Mkdir(www, 0o700))
	c := &collector{t: t}
	mux := http.NewServeMux()
	mux.Handle("/acme/", http.StripPrefix("/acme/", http.FileServer(http.Dir(www))))
	mux.Handle("/v1/logs", c)
	ca := newAuthority(t)
	server := ca.serve(t, "127.0.0.1", mux)
	authority := admin.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})))

	admin.run("", "fleet", "init", acme, "--name", "acme")
	if got := admin.run("", "fleet", "group", acme, "dev", "--mode", "floor"); !strings.Contains(got, "fleet policy export") {
		t.Errorf("group: %s", got)
	}
	admin.run("", "fleet", "policy", "export", acme, "--to", www)
	token := admin.run("", "fleet", "token", acme, "--group", "dev", "--policy-url", server.URL+"/acme/", "--otlp", server.URL+"/v1/logs", "--ca", authority)

	header := ann.write("header", "Authorization: Bearer sesame\n")
	if got := ann.run(token, "fleet", "join", "--yes", "--otlp-header-file", header); !strings.Contains(got, "joined acme, group dev") {
		t.Errorf("join: %s", got)
	}
	stop := ann.courier()
	until(t, "the first policy", func() bool { return ann.has("1") })
	notes, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"notes": map[string]any{"command": ann.tgctl, "args": []string{"demo", "server", "--log", filepath.Join(ann.home, "notes.log")}}}})
	must(t, err)
	agents := ann.write("mcp.json", string(notes))
	agent := []string{"wrap", "--agent-type", "custom", "--config-path", agents, "--", ann.tgctl, "demo", "agent", "--config", agents}
	if got := ann.run("", agent...); strings.Contains(got, "by the fleet") {
		t.Errorf("the agent before the policy: %s", got)
	}
	stop()

	rules := admin.write("dev.yaml", "schema: 1\ngovernance:\n  rules:\n    - {match: \"delete_*\", action: deny, description: \"forbidden by the fleet\"}\n")
	admin.run("", "fleet", "policy", "publish", acme, "--group", "dev", "--rules", rules)
	admin.run("", "fleet", "policy", "export", acme, "--to", www)
	stop = ann.courier() // it looks at once
	until(t, "the second policy", func() bool { return ann.has("2") })
	if got := ann.run("", agent...); !strings.Contains(got, "forbidden by the fleet") {
		t.Errorf("the agent under the policy: %s", got)
	}
	ann.run("", "fleet", "flush", "--timeout", time.Minute.String())
	var status string
	until(t, "the status says that all records were sent", func() bool { // which the courier writes at times
		status = ann.run("", "fleet", "status")
		return strings.Contains(status, "all sent")
	})
	for _, want := range []string{server.URL + "/acme/, read", "fresh", "all sent, to " + server.URL + "/v1/logs"} {
		if !strings.Contains(status, want) {
			t.Errorf("status: no %q in\n%s", want, status)
		}
	}
	n, _, faults := c.taken()
	faults = slices.DeleteFunc(faults, func(f *stream.Fault) bool { return f.Kind == stream.Foreign }) // its log has an id of its own
	if n < 10 || len(faults) > 0 || c.header.Get("Authorization") != "Bearer sesame" {
		t.Errorf("the collector has %d records, %v", n, faults)
	}
	shown := ann.run("", "fleet", "show-outgoing")
	c.mu.Lock()
	sent := strings.Join(c.lines, "\n")
	c.mu.Unlock()
	if !strings.HasPrefix(shown, sent) || !strings.Contains(sent, "delete_") {
		t.Errorf("show-outgoing shows another log than the collector has:\n%s\n%s", shown, sent)
	}
	stop()
	if got := ann.run("", "fleet", "leave", "--yes"); !strings.Contains(got, "could not be told: the fleet has no engine") || !strings.Contains(got, "left acme") {
		t.Errorf("leave: %s", got)
	}
}
