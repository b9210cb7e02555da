// Demo shows a fleet on one machine: an engine, an administrator, and three users who join. Ann and Bob
// have agents; Carl answers the questions of others. `make fleet-demo` runs it. It takes the programs from
// the folder that its argument names, and leaves nothing behind.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	calls "github.com/thoughtgate/thoughtgated/internal/demo"
	"github.com/thoughtgate/thoughtgated/internal/test/fleet/server"
)

// patience is how long one step may take.
const patience = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo FOLDER-OF-THE-PROGRAMS")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fleet-demo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	ctx   context.Context
	out   io.Writer
	tgctl string
	root  string
	users map[string]*user
	ends  []func() // what to do at the end, last first
}

// user is somebody with a home and a daemon of their own. The administrator has no daemon.
type user struct {
	*demo
	name, home string
	env        []string
}

func run(ctx context.Context, programs string, out io.Writer) (err error) {
	programs, err = filepath.Abs(programs)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("/tmp", "tg-fleet-")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &demo{ctx: ctx, out: out, tgctl: filepath.Join(programs, "tgctl"), root: root, users: map[string]*user{}}
	defer func() {
		for _, end := range d.ends {
			defer end()
		}
		cancel()
	}()
	d.ends = append(d.ends, func() { err = errors.Join(err, os.RemoveAll(root)) })
	defer func() {
		if err != nil {
			d.showLogs()
		}
	}()
	for _, step := range []func() error{d.furnish, d.startEngine, d.makeGroup, d.joinAll, d.withoutPolicy, d.publish, d.askColleague, d.look, d.leave} {
		if err := step(); err != nil {
			return err
		}
	}
	d.title("That was it: everything ran below %s, which is removed now.", root)
	return nil
}

// showLogs shows what the programs that run all the time have said, after something has failed.
func (d *demo) showLogs() {
	paths, _ := filepath.Glob(filepath.Join(d.root, "*", "*.log")) // the pattern is well formed
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fmt.Fprintf(d.out, "\n# %s\n%s", strings.TrimPrefix(path, d.root), text)
		if err != nil {
			fmt.Fprintln(d.out, err)
		}
	}
}

// title prints a line for people.
func (d *demo) title(format string, args ...any) { fmt.Fprintf(d.out, "\n# "+format+"\n", args...) }

// folder is the administrator's folder of the fleet.
func (d *demo) folder() string { return filepath.Join(d.root, "admin", "acme") }

// furnish makes the homes.
func (d *demo) furnish() error {
	for _, name := range []string{"admin", "ann", "bob", "carl"} {
		home := filepath.Join(d.root, name)
		u := &user{demo: d, name: name, home: home, env: []string{
			"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "XDG_STATE_HOME=" + home + "/state", "XDG_RUNTIME_DIR=" + home + "/run", "PATH=" + os.Getenv("PATH"), "COLUMNS=100", "USER=" + name,
		}}
		for _, dir := range []string{"config/thoughtgate", "state", "run"} {
			if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
				return err
			}
		}
		if err := os.Chmod(filepath.Join(home, "run"), 0o700); err != nil {
			return err
		}
		own := "schema: 1\ngovernance:\n  defaults: {action: forward}\n"
		if err := os.WriteFile(filepath.Join(home, "config/thoughtgate/thoughtgate.yaml"), []byte(own), 0o600); err != nil {
			return err
		}
		d.users[name] = u
	}
	servers := map[string]any{"mcpServers": map[string]any{"notes": map[string]any{"command": d.tgctl, "args": []string{"demo", "server", "--log", filepath.Join(d.root, "ann", "notes.log")}}}}
	text, err := json.Marshal(servers)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.root, "ann", "mcp.json"), text, 0o600)
}

// command returns a command of the user.
func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.ctx, u.tgctl, args...)
	cmd.Env, cmd.Dir = u.env, u.home
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd
}

// tgctl runs tgctl as the user, shows the command and what it prints, and returns its standard output.
func (u *user) run(in string, args ...string) (string, error) {
	fmt.Fprintf(u.out, "%s$ tgctl %s\n", u.name, strings.Join(args, " "))
	cmd := u.command(args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &said
	err := cmd.Run()
	fmt.Fprint(u.out, strings.ReplaceAll(out.String()+said.String(), u.root, ""))
	if err != nil {
		return "", fmt.Errorf("%s: tgctl %s: %w", u.name, strings.Join(args, " "), err)
	}
	return out.String(), nil
}

// quiet is run without showing anything.
func (u *user) quiet(args ...string) (string, error) {
	cmd := u.command(args...)
	out, err := cmd.Output()
	return string(out), err
}

// start starts a command that runs until the end of the demo.
func (u *user) start(args ...string) error {
	fmt.Fprintf(u.out, "%s$ tgctl %s &\n", u.name, strings.Join(args, " "))
	log, err := os.Create(filepath.Join(u.home, args[1]+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := u.command(args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	u.ends = append(u.ends, func() { _ = cmd.Wait() }) // it was interrupted
	return nil
}

// until runs look until it reports true.
func (d *demo) until(what string, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := look()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until %s: %w", what, ctx.Err()), err)
		case <-tick.C:
		}
	}
}

func (d *demo) startEngine() error {
	d.title("The administrator makes a fleet and runs a stock NATS server with its configuration.")
	port, err := server.FreePort()
	if err != nil {
		return err
	}
	admin := d.users["admin"]
	if _, err := admin.run("", "fleet", "init", d.folder(), "--name", "acme", "--address", fmt.Sprintf("tls://127.0.0.1:%d", port)); err != nil {
		return err
	}
	engine, err := server.Start(d.folder())
	if err != nil {
		return err
	}
	d.ends = append(d.ends, func() { engine.Shutdown(); engine.WaitForShutdown() })
	if _, err := admin.run("", "fleet", "apply", d.folder()); err != nil {
		return err
	}
	return admin.start("fleet", "issue", d.folder())
}

func (d *demo) makeGroup() error {
	_, err := d.users["admin"].run("", "fleet", "group", d.folder(), "dev", "--mode", "floor")
	return err
}

// joinAll lets everybody join. Carl has a key with which he signs his answers.
func (d *demo) joinAll() error {
	d.title("Ann and Bob join. So does Carl, who will answer questions of others.")
	admin, carl := d.users["admin"], d.users["carl"]
	key := filepath.Join(carl.home, "id_ed25519")
	if out, err := exec.CommandContext(d.ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w\n%s", err, out)
	}
	line, err := carl.run("", "fleet", "key", "--name", "carl", "--ssh-key", key+".pub")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(admin.home, "approvers.txt"), []byte(line), 0o600); err != nil {
		return err
	}
	for _, name := range []string{"ann", "bob", "carl"} {
		words := []string{"fleet", "token", d.folder(), "--group", "dev"}
		if name == "carl" {
			fields := strings.Fields(line)
			words = append(words, "--role", "approver", "--recipient", fields[3])
		}
		token, err := admin.quiet(words...)
		if err != nil {
			return fmt.Errorf("make a token: %w", err)
		}
		u := d.users[name]
		d.ends = append(d.ends, func() { _ = u.stopDaemon() })
		if _, err := u.run(token, "fleet", "join", "--yes"); err != nil {
			return err
		}
		if err := u.start("fleet", "run"); err != nil {
			return err
		}
	}
	return d.until("everybody has the first policy", func() (bool, error) { return d.allHave(1) })
}

// stopDaemon stops the daemon that tgctl has started for the user. The demo's context has ended then.
func (u *user) stopDaemon() error {
	cmd := exec.Command(u.tgctl, "daemon", "stop")
	cmd.Env = u.env
	return cmd.Run()
}

// allHave reports whether a version of the policy is in force on each machine.
func (d *demo) allHave(version uint64) (bool, error) {
	for _, name := range []string{"ann", "bob", "carl"} {
		out, err := d.users[name].quiet("fleet", "status", "--json")
		var state struct {
			Version json.Number `json:"bundle_version"`
		}
		if err = errors.Join(err, json.Unmarshal([]byte(out), &state)); err != nil || state.Version.String() != fmt.Sprint(version) {
			return false, err
		}
	}
	return true, nil
}

// agent runs Ann's agent, which reads a note, deletes one and sends a mail.
func (d *demo) agent() error {
	ann := d.users["ann"]
	config := filepath.Join(ann.home, "mcp.json")
	out, err := ann.quiet("wrap", "--agent-type", "custom", "--config-path", config, "--", d.tgctl, "demo", "agent", "--config", config)
	if err != nil {
		return fmt.Errorf("ann's agent: %w", err)
	}
	for line := range strings.Lines(out) {
		var step struct {
			Call   calls.Call
			Result *calls.Result
		}
		if json.Unmarshal([]byte(line), &step) == nil && step.Result != nil {
			fmt.Fprintf(d.out, "  agent: %-12s -> %s\n", step.Call.Tool, step.Result.Text)
		}
	}
	return nil
}

func (d *demo) withoutPolicy() error {
	d.title("Ann's own policy forwards everything, and the fleet's is empty so far.")
	return d.agent()
}

// policy is what the administrator publishes.
const policy = `schema: 1
governance:
  rules:
    - {match: "delete_*", action: deny, description: "nothing is deleted by an agent"}
    - {match: "send_*", action: approve, approval: colleague, description: "mail leaves the company"}
approval:
  colleague: {destination: {type: local}, surfaces: [colleague], timeout: 5m}
`

func (d *demo) publish() error {
	d.title("The administrator publishes a policy: nothing is deleted, and mail needs a colleague.")
	admin := d.users["admin"]
	rules := filepath.Join(admin.home, "dev.yaml")
	if err := os.WriteFile(rules, []byte(policy), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if _, err := admin.run("", "fleet", "policy", "publish", d.folder(), "--group", "dev", "--rules", rules, "--approvers", filepath.Join(admin.home, "approvers.txt")); err != nil {
		return err
	}
	if err := d.until("everybody has the new policy", func() (bool, error) { return d.allHave(2) }); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  in force on three machines after %s\n", time.Since(began).Round(time.Millisecond))
	return nil
}

func (d *demo) askColleague() error {
	d.title("Ann's agent again: its mail waits for Carl, in his own queue.")
	carl := d.users["carl"]
	ended := make(chan error, 1)
	go func() { ended <- d.agent() }()
	id := ""
	err := d.until("the question reaches Carl", func() (bool, error) {
		select {
		case err := <-ended:
			return true, fmt.Errorf("the agent has ended: %w", err)
		default:
		}
		out, err := carl.quiet("approvals", "list", "--json")
		var q struct{ ID string }
		if err != nil || json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &q) != nil || q.ID == "" {
			return false, err
		}
		id = q.ID
		return true, nil
	})
	if err == nil && id == "" {
		err = errors.New("the agent has ended before the question reached Carl")
	}
	if err == nil {
		_, err = carl.run("", "approvals", "show", id)
	}
	if err == nil {
		_, err = carl.run("", "approvals", "approve", id)
	}
	if err != nil {
		return err
	}
	return <-ended
}

func (d *demo) look() error {
	d.title("What is known of it, by Ann and by the administrator.")
	for _, words := range [][]string{{"fleet", "status"}, {"fleet", "flush"}} {
		if _, err := d.users["ann"].run("", words...); err != nil {
			return err
		}
	}
	logs := filepath.Join(d.root, "admin", "logs")
	for _, words := range [][]string{{"fleet", "devices", d.folder()}, {"fleet", "audit", "pull", d.folder(), logs}, {"fleet", "audit", "verify", logs}} {
		if _, err := d.users["admin"].run("", words...); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) leave() error {
	d.title("Ann leaves. Her own policy is in force again.")
	if _, err := d.users["ann"].run("", "fleet", "leave", "--yes"); err != nil {
		return err
	}
	return d.agent()
}
