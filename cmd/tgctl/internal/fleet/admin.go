package fleet

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
)

func (a *app) initCmd() *cobra.Command {
	var name, at string
	var addresses []string
	cmd := &cobra.Command{
		Use:   "init FOLDER --name NAME [flags]",
		Short: "Make the keys and the engine's configuration of a new fleet",
		Long: `Make a folder with all that a new fleet needs. FOLDER/server goes to the machine
of the engine, a stock nats-server: one address makes one node, three make
three. --at says where it will lie there, if that is not where it is made: the
configuration names its files by their paths.

FOLDER/keys stays with you. Three of the keys, tuf-root-1 to tuf-root-3, sign
only which other keys count, and two of them are enough: move each to a place
of its own, off this machine. You need them again in a year, or when a key is
lost.

Without --address the fleet has no engine, and FOLDER only keys: machines get
the policy from a web server. See: tgctl fleet policy export --help`,
		Example: `  $ tgctl fleet init acme --name acme --address tls://fleet.acme.example:4222`,
		Args:    ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fleet.CheckName(name); err != nil {
				return ui.Misuse("--name: %w", err)
			}
			folder := ui.ShellWord(display.Text(args[0]))
			if len(addresses) == 0 {
				if err := newRepository(args[0], name, false, a.Now()); err != nil {
					return err
				}
				a.PrintMessage("Made %s. Next:\n  tgctl fleet group %s NAME --mode floor\n  tgctl fleet policy export %s --to DIR\n  tgctl fleet token %s --group NAME --policy-url https://HOST/PATH/", folder, folder, folder, folder)
				return nil
			}
			if err := fleet.CheckEngine(addresses); err != nil {
				return ui.Misuse("--address: %w", err)
			}
			words := []string{"init", args[0], "--name", name, "--at", at}
			for _, address := range addresses {
				words = append(words, "--address", address)
			}
			if err := a.courier(cmd.Context(), nil, a.Out, words...); err != nil {
				return err
			}
			if err := newRepository(args[0], name, true, a.Now()); err != nil {
				return err
			}
			a.PrintMessage("Made %s. Next: run the engine with %s/server, then\n  tgctl fleet apply %s\n  tgctl fleet issue %s &\n  tgctl fleet group %s NAME --mode floor\n  tgctl fleet token %s --group NAME", folder, folder, folder, folder, folder, folder)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the `NAME` of the fleet: a-z, 0-9 and -")
	cmd.Flags().StringVar(&at, "at", "", "the absolute `PATH` of the folder server on the engine's machines")
	cmd.Flags().StringArrayVar(&addresses, "address", nil, "an `ADDRESS` of the engine: tls://HOST:PORT or wss://HOST:PORT; one or three")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func (a *app) applyCmd() *cobra.Command {
	return a.courierVerb(&cobra.Command{
		Use:   "apply FOLDER",
		Short: "Make or update the streams on the engine",
		Long: `Connect to the running engine and make its streams as this version of
ThoughtGate wants them. It can be repeated: what is there is kept.`,
		Example: `  $ tgctl fleet apply acme`,
		Args:    ui.Exactly("FOLDER"),
	}, "apply")
}

func (a *app) issueCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "issue FOLDER",
		Short: "Answer machines that enrol, until interrupted",
		Long: `Answer machines that enrol with a token or renew what they enrolled with, until
Ctrl-C, and say on standard error who asks. Run it beside the engine, or where
FOLDER/keys is. While it does not run, nobody can join, and members stay members
for up to 30 days.`,
		Example: `  $ tgctl fleet issue acme`,
		Args:    ui.Exactly("FOLDER"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.become("issue", args[0]) },
	}
}

func (a *app) groupCmd() *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use:   "group FOLDER NAME --mode MODE",
		Short: "Add a group, which has one policy",
		Long: `Add a group of machines. With --mode floor its policy only tightens: it and the
user's own are both asked, and the stricter verdict counts. With --mode full it
replaces the user's. A machine's mode is fixed when it joins. The group gets an
empty policy, which changes nothing.`,
		Example: `  $ tgctl fleet group acme dev --mode floor`,
		Args:    ui.Exactly("FOLDER", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), args[0], func(r *repository) ([]string, error) {
				if err := r.addGroup(args[1], fleet.Mode(mode), a.Now()); err != nil {
					return nil, err
				}
				return []string{args[1]}, nil
			})
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", "`MODE`: floor or full")
	_ = cmd.MarkFlagRequired("mode")
	ui.CompleteFlag(cmd, "mode", ui.OneOf(string(fleet.ModeFloor), string(fleet.ModeFull)))
	return cmd
}

// change changes the metadata in folder and sends them to the engine: what change returns are the groups
// whose policy is new.
func (a *app) change(ctx context.Context, folder string, change func(*repository) ([]string, error)) error {
	r, err := openRepository(folder)
	if err != nil {
		return err
	}
	groups, err := change(r)
	if err != nil {
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	if expires, err := r.TUF.RootExpires(); err != nil {
		return err
	} else if expires.Sub(a.Now()) < renewBefore {
		a.PrintMessage("The root expires on %s, and then machines take no new policy. Renew it: tgctl fleet policy renew-root %s --key FILE --key FILE", expires.Format(time.DateOnly), ui.Word(folder))
	}
	if r.NoEngine {
		a.PrintMessage("It is signed. To hand it out: tgctl fleet policy export %s --to DIR", ui.Word(folder))
		return nil
	}
	for _, group := range groups {
		if err := a.courier(ctx, r.request(group), io.Discard, "publish", folder, group); err != nil {
			return &ui.HintError{Err: fmt.Errorf("send the policy of %s to the engine: %w", display.Name(group), err), Hint: "It is made and signed. To send it again: tgctl fleet policy confirm " + ui.Word(folder)}
		}
	}
	return nil
}

// tokenOptions are those of a new token.
type tokenOptions struct {
	group, role, recipient string
	valid                  time.Duration

	web fleet.Token // without an engine: where the policy comes from, and records go to
	ca  string      // the file with its authority
}

func (a *app) tokenCmd() *cobra.Command {
	var o tokenOptions
	cmd := &cobra.Command{
		Use:   "token FOLDER --group GROUP [flags]",
		Short: "Make a token with which one machine can join",
		Long: `Print a token with which one machine can join, once. It is a secret until it has
been used. With --role approver, the machine also gets the questions of others
that are sealed to the key of "tgctl fleet key", which --recipient names.

With --policy-url, print a token with which any number of machines can join a
fleet that has no engine: they get the policy from the address at which a web
server hands out what "tgctl fleet policy export" has written, and send their
records to --otlp as OTLP logs, or nowhere. It is not a secret. If the system
does not know the authority of the servers' certificates, name its certificate
by --ca; the servers must send that along with theirs.`,
		Example: `  $ tgctl fleet token acme --group dev > token.txt
  $ tgctl fleet token acme --group dev --role approver --recipient age1...
  $ tgctl fleet token acme --group dev --policy-url https://acme.example/tuf/`,
		Args: ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.token(cmd, args[0], &o) },
	}
	cmd.Flags().StringVar(&o.group, "group", "", "the `GROUP` of the machine")
	cmd.Flags().StringVar(&o.role, "role", string(fleet.RoleDevice), "`ROLE`: device or approver")
	cmd.Flags().StringVar(&o.recipient, "recipient", "", "the `KEY` to which questions for an approver are sealed")
	cmd.Flags().DurationVar(&o.valid, "for", 24*time.Hour, "how long it can be used: a `TIME`")
	cmd.Flags().StringVar(&o.web.Policy, "policy-url", "", "the `URL` of the exported policy, of a fleet without an engine: https://HOST/PATH/")
	cmd.Flags().StringVar(&o.web.OTLP, "otlp", "", "with --policy-url: the `URL` that takes records as OTLP logs, as https://HOST/v1/logs")
	cmd.Flags().StringVar(&o.ca, "ca", "", "with --policy-url: the `FILE` with the certificate of the authority of both servers")
	_ = cmd.MarkFlagRequired("group")
	ui.CompleteFlag(cmd, "role", ui.OneOf(string(fleet.RoleDevice), string(fleet.RoleApprover)))
	return cmd
}

// token makes a token, as tokenCmd says.
func (a *app) token(cmd *cobra.Command, folder string, o *tokenOptions) error {
	r, err := openRepository(folder)
	if err != nil {
		return err
	}
	g, err := r.find(o.group)
	if err != nil {
		return err
	}
	switch {
	case o.web.Policy != "":
		for _, flag := range []string{"role", "recipient", "for"} {
			if cmd.Flags().Changed(flag) {
				return ui.Misuse("--%s is for a token of an engine, and --policy-url for one without", flag)
			}
		}
		web := &o.web
		web.V, web.Fleet, web.Root, web.Group, web.Mode, web.Role = fleet.TokenVersion, r.Fleet, r.rootDigest(), o.group, g.Mode, fleet.RoleDevice
		return a.webToken(web, o.ca)
	case o.web.OTLP != "" || o.ca != "":
		return ui.Misuse("--otlp and --ca need --policy-url")
	case r.NoEngine:
		return ui.Misuse("the fleet has no engine: name the address of its policy by --policy-url")
	}
	words := []string{"token", folder, "--group", o.group, "--role", o.role, "--mode", string(g.Mode), "--root", r.rootDigest(), "--for", o.valid.String()}
	if o.recipient != "" {
		words = append(words, "--recipient", o.recipient)
	}
	return a.courier(cmd.Context(), nil, a.Out, words...)
}

// webToken prints a token of a fleet without an engine, with the digest of an authority's certificate.
func (a *app) webToken(t *fleet.Token, ca string) error {
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("read the certificate of the authority: %w", err)
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return fmt.Errorf("%s has no certificate in PEM", display.Text(ca))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("read the certificate of the authority, %s: %w", display.Text(ca), err)
		}
		t.CA = fleet.Digest(block.Bytes)
	}
	if _, err := fleet.ParseToken(t.String()); err != nil { // before anybody tries to use it
		return err
	}
	_, err := fmt.Fprintln(a.Out, t.String())
	return err
}

// device is a line of tg-fleet devices.
type device struct {
	Device string     `json:"device"`
	Group  string     `json:"group"`
	Role   string     `json:"role"`
	Seen   fleet.Seen `json:"seen"`
	Sent   uint64     `json:"sent"` // seq of the last stored record

	Messages uint64 `json:"messages"` // of records, on the engine

	Revoked bool `json:"revoked"` // or it has left
}

func (a *app) devicesCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "devices FOLDER",
		Short: "List the machines of a fleet",
		Long: `List the machines that have joined: which policy is in force on each, when it
was heard of last, how many of its records have not arrived, and in how many
messages those came that have. A message has at most 256 records and 1 MiB, so
a machine with far more messages than others fills the engine's disk. It is said
when the record has nearly all of its room there.`,
		Example: `  $ tgctl fleet devices acme`,
		Args:    ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out bytes.Buffer
			if err := a.courier(cmd.Context(), nil, &out, "devices", args[0]); err != nil {
				return err
			}
			var all []device
			for in := json.NewDecoder(&out); ; {
				var d device
				if err := in.Decode(&d); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return fmt.Errorf("read the list of machines: %w", err)
				}
				all = append(all, d)
			}
			return ui.PrintList(a, all, func(d device) any { return d }, "No machine has joined. To let one join: tgctl fleet token "+ui.Word(args[0])+" --group GROUP", a.deviceTable)
		},
	}, device{})
}

func (a *app) deviceTable(all []device) *display.Table {
	t := &display.Table{Columns: []display.Column{{Head: "DEVICE", Shrink: 12}, {Head: "GROUP"}, {Head: "POLICY"}, {Head: "SEEN"}, {Head: "NOT SENT"}, {Head: "MESSAGES"}, {Head: "BUILD", Shrink: 8}}}
	for _, d := range all {
		policy := display.Safe("none")
		if d.Seen.Bundle > 0 {
			policy = display.Safe(fmt.Sprintf("%s %d", d.Seen.Mode, d.Seen.Bundle))
		}
		seen := display.Safe("never")
		if d.Seen.At > 0 {
			seen = ui.Ago(time.Unix(d.Seen.At, 0), a.Now())
		}
		switch {
		case d.Seen.Left:
			seen = "left"
		case d.Revoked:
			seen = "revoked"
		}
		t.Add(display.Name(d.Device), display.Name(d.Group)+ui.Choose(d.Role == string(fleet.RoleApprover), ", approver", ""), policy, seen, display.Safe(fmt.Sprint(max(d.Seen.Seq, d.Sent)-d.Sent)), display.Safe(fmt.Sprint(d.Messages)), ui.OrDash(d.Seen.Build))
		t.Note(display.Text(strings.Join(ui.Filter([]string{d.Seen.Failure, d.Seen.Fork}, func(s string) bool { return s != "" }), "; ")))
	}
	return t
}

func (a *app) revokeCmd() *cobra.Command {
	return a.courierVerb(&cobra.Command{
		Use:   "revoke FOLDER DEVICE",
		Short: "End the membership of a machine from the engine's side",
		Long: `Refuse a machine at the engine, at once and for good: it can neither send nor
receive. What it has sent stays. Its user can still work under the last policy.`,
		Example: `  $ tgctl fleet revoke acme UBC...`,
		Args:    ui.Exactly("FOLDER", "DEVICE"),
	}, "revoke")
}

func (a *app) auditCmd() *cobra.Command {
	cmd := ui.Group("audit COMMAND", "Read the records of all machines",
		a.courierVerb(&cobra.Command{
			Use:   "pull FOLDER LOGS",
			Short: "Copy the records of all machines",
			Long: `Copy the records of all machines from the engine into the folder LOGS, a folder
for each machine and log, and continue where the last copy ended. Each record is
verified as it comes: one that is missing, doubled or altered, and a log with
two histories, is named.`,
			Example: `  $ tgctl fleet audit pull acme logs`,
			Args:    ui.Exactly("FOLDER", "LOGS"),
		}, "pull"),
		a.courierVerb(&cobra.Command{
			Use:   "verify LOGS",
			Short: "Verify copied records again",
			Long: `Verify the records that "tgctl fleet audit pull" has copied, without the engine:
that each carries the hash of the one before, and that none is missing or
doubled. Exits 4 if the check fails, and names the first bad record.`,
			Example: `  $ tgctl fleet audit verify logs`,
			Args:    ui.Exactly("LOGS"),
		}, "verify"))
	cmd.Example = "  $ tgctl fleet audit pull acme logs"
	return cmd
}
