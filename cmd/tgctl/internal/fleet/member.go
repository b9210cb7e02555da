package fleet

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxToken bounds what is read for a token.
const maxToken = 64 << 10

func (a *app) joinCmd() *cobra.Command {
	var file, header string
	var values, yes bool
	cmd := &cobra.Command{
		Use:   "join [flags]",
		Short: "Make this machine a member of a fleet",
		Long: `Make this machine a member of the fleet whose administrator gave you a token.
The token is asked for at the terminal, or read from standard input or --file;
it is never an argument, which other programs could read. What the organization
will see, and what its policy will do with yours, is shown before you agree.

Records leave without the values of calls, unless both the organization's policy
and --values allow them. See what leaves: tgctl fleet show-outgoing`,
		Example: `  $ tgctl fleet join
  $ tgctl fleet join --file token.txt`,
		Args: ui.NoArgs,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			token, err := a.readToken(ctx, file)
			if err != nil {
				return err
			}
			return a.join(ctx, c, token, header, values, yes)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "read the token from `FILE`")
	cmd.Flags().StringVar(&header, "otlp-header-file", "", "send the collector of a fleet without an engine the header in `FILE`, which only you can read: Authorization: Bearer TOKEN")
	cmd.Flags().BoolVar(&values, "values", false, "agree that records leave with values, if the policy asks for that")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "agree without being asked")
	return cmd
}

// readToken reads a token from a file, from standard input or from the terminal, without showing it.
func (a *app) readToken(ctx context.Context, file string) (*fleet.Token, error) {
	var text []byte
	var err error
	switch {
	case file != "":
		var f *os.File
		if f, err = os.Open(file); err == nil {
			text, err = io.ReadAll(io.LimitReader(f, maxToken))
			f.Close()
		}
	case a.InTerminal:
		var t *ui.SecretTerminal
		if t, err = ui.OpenTerminal(); err == nil {
			text, err = t.Ask(ctx, "Token (not shown):")
			t.Close()
		}
	default:
		text, err = io.ReadAll(io.LimitReader(a.In, maxToken))
	}
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	defer clear(text)
	return fleet.ParseToken(string(text))
}

// modeText says what the policy of a fleet does with the user's own.
func modeText(mode fleet.Mode) display.Safe {
	return ui.Choose(mode == fleet.ModeFull, "the fleet's policy replaces yours", "the fleet's policy is asked besides yours, and the stricter verdict counts")
}

// showToken shows what to agree to.
func (a *app) showToken(t *fleet.Token, values bool) error {
	s := &ui.Sheet{}
	s.Add("fleet", display.Name(t.Fleet))
	s.Add("group", display.Name(t.Group))
	if t.Policy == "" {
		s.Add("engine", ui.NameList(t.Engine))
	} else {
		s.Add("policy from", display.Name(t.Policy))
	}
	s.Add("policy", display.Name(string(t.Mode))+": "+modeText(t.Mode))
	s.Add("root keys", display.Name(t.Root))
	leaves := display.Safe("which agent called which tool of which server when, with what verdict and whose answer; never the values of a call")
	if values {
		leaves = "which agent called which tool of which server when, with what verdict and whose answer; and the values that the log keeps, if the policy asks for them"
	}
	switch {
	case t.OTLP != "":
		leaves += ", to " + display.Name(t.OTLP)
	case t.Policy != "":
		leaves = "nothing leaves this machine"
	}
	s.Add("leaves", leaves)
	if t.Policy != "" {
		s.Add("colleagues", "cannot answer for you: the fleet has no engine")
		s.Add("token", "no secret: any number of machines can join with it")
	}
	if t.Role == fleet.RoleApprover {
		s.Add("role", "approver: questions of other machines come into your queue")
	}
	return ui.WriteLines(a.Err, ui.Painted(a.ErrPaint(), s.Toned(a.Width())))
}

// enrolled is what tg-fleet says after it has enrolled.
type enrolled struct {
	Device string `json:"device"`
	Root   string `json:"root"` // base64
}

func (a *app) join(ctx context.Context, c *client.Client, t *fleet.Token, header string, values, yes bool) error {
	if header != "" && t.OTLP == "" {
		return ui.Misuse("--otlp-header-file: the token names no collector that takes records as OTLP logs")
	}
	state, err := c.Membership(ctx)
	if err != nil {
		return err
	}
	if state.GetDevice() != "" {
		return &ui.HintError{Err: fmt.Errorf("this machine is a member of %s already", display.Name(state.GetFleet())), Hint: "To join another fleet, leave it first: tgctl fleet leave"}
	}
	if !yes {
		if err := a.showToken(t, values); err != nil {
			return err
		}
		if !a.InTerminal {
			return ui.NoTerminal("joining a fleet", "Read what is shown, then add --yes.")
		}
		if err := a.AskYes(ctx, "Join?"); err != nil {
			return err
		}
	}
	proof, err := a.proof(ctx, c)
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	var out bytes.Buffer
	words := []string{"enrol"}
	if header != "" {
		words = append(words, "--otlp-header-file", header)
	}
	if err := a.courier(ctx, []byte(t.String()), &out, words...); err != nil {
		if t.Policy != "" {
			return fmt.Errorf("join with the policy of %s: %w", display.Name(t.Policy), err)
		}
		return &ui.HintError{Err: fmt.Errorf("enrol at %s: %w", ui.NameList(t.Engine), err), Hint: "If the token was used or has expired, ask your administrator for a new one."}
	}
	req, err := joinRequest(t, out.Bytes(), values)
	if err == nil {
		req.Proof = proof
		state, err = c.JoinFleet(ctx, req)
	}
	if err != nil {
		return ui.WithHint(errors.Join(err, a.courier(context.WithoutCancel(ctx), nil, io.Discard, "leave")), hints...)
	}
	defer a.PrintMessage(startText)
	return a.PrintLines([]display.Safe{"joined " + display.Name(state.GetFleet()) + ", group " + display.Name(state.GetGroup()) + ", as " + display.Name(state.GetDevice())})
}

// joinRequest returns the request with which the daemon joins, after tg-fleet has enrolled.
func joinRequest(t *fleet.Token, said []byte, values bool) (*pb.JoinFleetRequest, error) {
	var e enrolled
	if err := json.Unmarshal(said, &e); err != nil {
		return nil, fmt.Errorf("read what %s has enrolled: %w", courierName, err)
	}
	root, err := base64.StdEncoding.DecodeString(e.Root)
	if err != nil {
		return nil, fmt.Errorf("read the root keys that the engine has sent: %w", err)
	}
	digest, err := hex.DecodeString(t.Root)
	if err != nil {
		return nil, fmt.Errorf("read the digest in the token: %w", err)
	}
	mode := pb.FleetMode_FLEET_MODE_FLOOR
	if t.Mode == fleet.ModeFull {
		mode = pb.FleetMode_FLEET_MODE_FULL
	}
	return &pb.JoinFleetRequest{Device: e.Device, Fleet: t.Fleet, Group: t.Group, Mode: mode, Engine: t.Engine, Policy: t.Policy, Otlp: t.OTLP, RootDigest: digest, Root: root, Values: values}, nil
}

// proof asks for a proof of presence if a secret is enrolled; otherwise it returns nil.
func (a *app) proof(ctx context.Context, c *client.Client) (*pb.Proof, error) {
	state, err := c.PresenceStatus(ctx, true)
	if err != nil || !state.GetEnrolled() {
		return nil, err
	}
	p := &approval.Prover{Client: c}
	defer p.Close()
	return p.Proof(ctx, func() error { return nil })
}

// startText says how to keep tg-fleet running.
const startText = "Next, keep the courier running: systemctl --user enable --now tg-fleet\nWithout systemd: tgctl fleet run"

func (a *app) runCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Carry records and policy until stopped",
		Long: `Run the courier between this machine and the engine of its fleet, until it is
stopped. To run it as a systemd service: systemctl --user enable --now tg-fleet`,
		Example: `  $ tgctl fleet run`,
		Args:    ui.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.become() },
	}
}

// become replaces this program by the courier.
func (a *app) become(args ...string) error {
	program, err := a.Sibling(courierName)
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", program, unix.Exec(program, append([]string{courierName}, args...), a.Environ()))
}

func (a *app) leaveCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "leave [flags]",
		Short: "End the membership in a fleet",
		Long: `End this machine's membership: the fleet's policy is removed, nothing leaves any
more, and the keys for the engine are deleted. The record says so, here and on
the engine, which is told if it can be reached. Your own policy and log stay.`,
		Example: `  $ tgctl fleet leave`,
		Args:    ui.NoArgs,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			state, err := c.Membership(ctx)
			if err == nil && state.GetDevice() == "" {
				err = errNoFleet
			}
			if err != nil {
				return err
			}
			if !yes {
				if !a.InTerminal {
					return ui.NoTerminal("leaving a fleet", "Add --yes.")
				}
				if err := a.AskYes(ctx, "Leave "+string(display.Name(state.GetFleet()))+"? Its policy will no longer be in force."); err != nil {
					return err
				}
			}
			return ui.WithHint(a.leave(ctx, c, state.GetFleet()), hints...)
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "leave without being asked")
	return cmd
}

var errNoFleet = &ui.HintError{Err: errors.New("this machine is in no fleet"), Hint: "To join one, get a token from its administrator: tgctl fleet join"}

func (a *app) leave(ctx context.Context, c *client.Client, name string) error {
	proof, err := a.proof(ctx, c)
	if err != nil {
		return err
	}
	if _, err := c.LeaveFleet(ctx, &pb.LeaveFleetRequest{Proof: proof}); err != nil {
		return err
	}
	var out bytes.Buffer
	var said struct{ Error string }
	err = a.courier(ctx, nil, &out, "leave")
	if err == nil && json.Unmarshal(out.Bytes(), &said) == nil && said.Error != "" {
		err = errors.New(said.Error)
	}
	if err != nil {
		a.PrintMessage("The engine could not be told: %s", display.Text(err.Error()))
	}
	return a.PrintLines([]display.Safe{"left " + display.Name(name)})
}

func (a *app) statusCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "status",
		Short: "Show the membership of this machine",
		Long: `Show which fleet this machine is in, which policy of it is in force and how
fresh that is, whether the engine is connected, and what has not been sent yet.

A policy is fresh for 24 hours after it was confirmed, stale for 7 days, and old
for 30. After that it stays in force, but whatever it would forward and your own
policy would not asks you.`,
		Example: `  $ tgctl fleet status`,
		Args:    ui.NoArgs,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			state, err := c.Membership(ctx)
			if err != nil {
				return err
			}
			if a.AsJSON {
				return a.PrintJSON(pbjson.Object{Message: state})
			}
			if state.GetDevice() == "" {
				return a.PrintLines([]display.Safe{"This machine is in no fleet. To join one, get a token from its administrator: tgctl fleet join"})
			}
			return a.PrintSheet(a.sheet(state, LookAtCourier(ctx, a.App)))
		}),
	}, &pb.FleetState{})
}

// CourierState is what the running tg-fleet says of itself.
type CourierState struct {
	Running   bool      `json:"running"`
	Connected bool      `json:"connected"`
	Engine    string    `json:"engine"`
	Since     time.Time `json:"since"`
	SentSeq   uint64    `json:"sent_seq"`
	LastError string    `json:"last_error"`
	Fork      string    `json:"fork"`
}

// LookAtCourier asks tg-fleet for its state. Without an answer, the state is that nothing runs.
func LookAtCourier(ctx context.Context, c *connect.App) CourierState {
	a := &app{c}
	var out bytes.Buffer
	var s CourierState
	if err := a.courier(ctx, nil, &out, "state"); err != nil {
		return CourierState{LastError: err.Error()}
	}
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return CourierState{LastError: "its state can't be read: " + err.Error()}
	}
	return s
}

// freshness returns the word for a freshness, and how serious it is.
func freshness(f pb.FleetFreshness) (display.Safe, display.Tone) {
	switch f {
	case pb.FleetFreshness_FLEET_FRESHNESS_FRESH:
		return "fresh", display.OK
	case pb.FleetFreshness_FLEET_FRESHNESS_STALE:
		return "stale", display.Warn
	case pb.FleetFreshness_FLEET_FRESHNESS_OLD:
		return "old", display.Warn
	case pb.FleetFreshness_FLEET_FRESHNESS_EXPIRED:
		return "expired: what only the fleet would forward asks you", display.Deny
	}
	return "never confirmed", display.Warn
}

// PolicyLine says which policy of a fleet is in force and how fresh it is, and how serious that is.
func PolicyLine(a *ui.App, state *pb.FleetState) (display.Safe, display.Tone) {
	mode := fleet.ModeFloor
	if state.GetMode() == pb.FleetMode_FLEET_MODE_FULL {
		mode = fleet.ModeFull
	}
	if state.GetBundleVersion() == 0 {
		return display.Name(string(mode)) + ", no policy yet", display.Warn
	}
	word, tone := freshness(state.GetFreshness())
	return ui.Join([]display.Safe{
		display.Name(string(mode)), "version " + display.Safe(fmt.Sprint(state.GetBundleVersion())), word + ui.Spaced(ui.Parens("confirmed "+ui.Ago(state.GetConfirmed().AsTime(), a.Now()))),
	}, ", "), tone
}

func (a *app) sheet(state *pb.FleetState, c CourierState) *ui.Sheet {
	s := &ui.Sheet{}
	s.AddIn(display.Strong, "fleet", display.Name(state.GetFleet())+", group "+display.Name(state.GetGroup()))
	s.Add("device", display.Name(state.GetDevice())+", joined "+ui.Ago(state.GetJoined().AsTime(), a.Now()))
	policy, tone := PolicyLine(a.App.App, state)
	s.AddIn(tone, "policy", policy)
	if state.GetFailure() != "" {
		s.AddIn(display.Deny, "refused", display.Text(state.GetFailure()))
	}
	s.Add("values", ui.Choose(state.GetSendsValues(), "leave with the records, as the policy asks and the join allows", "do not leave"))
	from, how := "engine", display.Safe("connected")
	if state.GetPolicy() != "" {
		from, how = "policy from", "read"
		c.Engine = state.GetPolicy()
	}
	switch {
	case c.Connected:
		s.AddIn(display.OK, from, display.Name(c.Engine)+", "+how+" "+ui.Ago(c.Since, a.Now()))
		s.AddIn(display.Warn, "failing", ui.Choose(c.Fork == "" && state.GetFailure() == "", display.Text(c.LastError), ""))
	case c.Running:
		s.AddIn(display.Warn, from, "not "+how+ui.AfterColon(display.Text(c.LastError)))
	default:
		s.AddIn(display.Warn, from, "tg-fleet does not run"+ui.AfterColon(display.Text(c.LastError)))
	}
	switch {
	case state.GetPolicy() == "":
		s.Add("records", sent(state.GetLogSeq(), c.SentSeq))
	case state.GetOtlp() == "":
		s.Add("records", "stay here: nothing leaves this machine")
	default:
		s.Add("records", sent(state.GetLogSeq(), c.SentSeq)+", to "+display.Name(state.GetOtlp()))
	}
	if c.Fork != "" {
		s.AddIn(display.Deny, "fork", display.Text(c.Fork))
	}
	if state.GetPending() > 0 {
		s.AddIn(display.Held, "colleagues", ui.Plural(state.GetPending(), "question waits", "questions wait")+" for one")
	}
	return s
}

// sent says how much of the log was sent.
func sent(head, sent uint64) display.Safe {
	if sent >= head {
		return "all sent"
	}
	return ui.Plural(head-sent, "record", "records") + " not sent yet"
}

func (a *app) outgoingCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "show-outgoing [flags]",
		Short: "Show exactly what has left this machine",
		Long: `Print the records that leave this machine, byte for byte, oldest first; with
--follow, then each one that leaves.`,
		Example: `  $ tgctl fleet show-outgoing | less
  $ tgctl fleet show-outgoing --follow`,
		Args: ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			args := []string{"outgoing"}
			if follow {
				args = append(args, "--follow")
			}
			return a.courier(cmd.Context(), nil, a.Out, args...)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print what leaves from now on, too, until Ctrl-C")
	return cmd
}

func (a *app) flushCmd() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "flush [flags]",
		Short: "Wait until all records have been sent",
		Long: `Wait until the engine, or the collector, has taken all records that the log has
now.`,
		Example: `  $ tgctl fleet flush --timeout 30s`,
		Args:    ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out bytes.Buffer
			if err := a.courier(cmd.Context(), nil, &out, "flush", "--timeout", timeout.String()); err != nil {
				return err
			}
			var done struct {
				Sent uint64 `json:"sent_seq"`
			}
			if err := json.Unmarshal(out.Bytes(), &done); err != nil {
				return fmt.Errorf("read what %s says: %w", courierName, err)
			}
			return a.PrintLines([]display.Safe{"all records up to " + display.Safe(fmt.Sprint(done.Sent)) + " have been sent"})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "give up after `TIME`")
	return cmd
}

func (a *app) keyCmd() *cobra.Command {
	var name, ssh string
	cmd := &cobra.Command{
		Use:   "key --name NAME --ssh-key FILE",
		Short: "Print the line by which an administrator makes you an approver",
		Long: `Print the line that an administrator adds to the approvers of a group: your
name, the public key with which you sign answers, and the one to which questions
are sealed. The sealing key is made once and never leaves this machine. An
sk-ssh-ed25519 key, which has to be touched, proves that you were there.`,
		Example: `  $ tgctl fleet key --name alice --ssh-key ~/.ssh/id_ed25519_sk.pub`,
		Args:    ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			public, err := os.ReadFile(ssh)
			if err != nil {
				return fmt.Errorf("read the public key: %w", err)
			}
			fields := append(strings.Fields(string(public)), "", "")
			if _, err := fleet.ParseKey(fields[0] + " " + fields[1]); err != nil {
				return &ui.HintError{Err: fmt.Errorf("%s: %w", display.Text(ssh), err), Hint: "Name the file that ends in .pub."}
			}
			if err := fleet.CheckName(name); err != nil {
				return ui.Misuse("--name: %w", err)
			}
			var out bytes.Buffer
			if err := a.courier(cmd.Context(), nil, &out, "key", "--sign-with", strings.TrimSuffix(ssh, ".pub")); err != nil {
				return err
			}
			approver := fleet.Approver{Name: name, SSH: fields[0] + " " + fields[1], Age: strings.TrimSpace(out.String())}
			return a.PrintLines([]display.Safe{display.Text(approverLine(approver))})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "your `NAME`, as records will have it")
	cmd.Flags().StringVar(&ssh, "ssh-key", "", "the `FILE` of your public key")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("ssh-key")
	return cmd
}
