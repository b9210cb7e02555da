package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) showCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "show SEQ [flags]",
		Short: "Show one record in full",
		Long: `Show one record in full, with its values. With --json the record is printed as
it is stored, and its values, if it has any, on a second line.`,
		Example: `  $ tgctl audit show 1204
  $ tgctl audit show 1204 --json | head -n 1 | tr -d '\n' | sha256sum`,
		Args:              ui.Exactly("SEQ"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || seq == 0 {
				return ui.Misuse("invalid record number %q: use a number of the column SEQ of tgctl audit", args[0])
			}
			c, err := a.Dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			for r, err := range c.ReadAudit(cmd.Context(), &pb.AuditQuery{From: seq}) {
				if err != nil {
					return err
				}
				if r.GetSeq() != seq {
					break
				}
				return a.showRecord(r)
			}
			return &ui.HintError{Err: fmt.Errorf("record %d: %w", seq, client.ErrNotFound), Hint: "To list the newest records: tgctl audit --all"}
		},
	}, record.Record{})
}

func (a *app) showRecord(r *pb.AuditRecord) error {
	if a.AsJSON {
		if err := a.PrintLine(r.GetLine()); err != nil || len(r.GetValues()) == 0 {
			return err
		}
		return a.PrintLine(r.GetValues())
	}
	sheet, err := RecordSheet(a.App, r)
	if err != nil {
		return err
	}
	if err := a.PrintSheet(sheet); err != nil {
		return err
	}
	if len(r.GetValues()) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(a.Out, "values:\n  %s\n", strings.ReplaceAll(string(display.JSON(r.GetValues(), ui.Behind(2, a.Width()))), "\n", "\n  "))
	return err
}

// RecordSheet lists the members of a stored record, without its values.
func RecordSheet(c *connect.App, r *pb.AuditRecord) (*ui.Sheet, error) {
	rec, err := record.Parse(r.GetLine())
	if err != nil {
		return nil, fmt.Errorf("parse record %d: %w; run `tgctl audit verify`", r.GetSeq(), err)
	}
	sum := sha256.Sum256(r.GetLine())
	return (&app{c}).recordSheet(&rec, hex.EncodeToString(sum[:])), nil
}

// recordSheet lists the members of a record in their order.
func (a *app) recordSheet(rec *record.Record, sum string) *ui.Sheet {
	s := &ui.Sheet{}
	s.Add("record", display.Safe(strconv.FormatUint(rec.Seq, 10))+", "+display.Name(string(rec.Kind)))
	s.Add("time", ui.When(rec.Time, a.Now()))
	s.Add("log", display.Name(rec.Log))
	s.Add("agent", ui.AgentLine(rec.Agent, rec.Session))
	s.Add("server", display.Name(rec.Server))
	s.Add("launch", display.Name(rec.Launch))
	s.Add("call", callLine(rec))
	s.Add("id", display.Name(rec.ID))
	s.Add("message", display.Text(rec.MessageID))
	s.AddIn(ui.ToneOf(VerdictWord(rec)), "verdict", display.Name(rec.Verdict)+ui.Spaced(ui.Parens(display.Name(rec.Would))))
	s.Add("gate", display.Name(rec.Gate))
	s.Add("rule", display.Text(rec.Rule))
	s.Add("policy", ui.Map(rec.Policies, display.Text)...)
	s.AddIn(display.Warn, "fact", ui.Map(rec.Facts, display.Text)...)
	s.Add("extension", ui.Map(rec.Extensions, display.Text)...)
	s.Add("answered by", display.Name(rec.Answerer))
	s.Add("reason", display.Text(rec.Reason))
	s.Add("profile", display.Name(rec.Profile))
	s.Add("question", display.Name(rec.Approval))
	s.Add("parked", ui.Choose(rec.Verdict == record.Park, "the agent was told to repeat the call", ""))
	s.Add("grant", display.Name(rec.Grant))
	s.Add("decider", ui.Who(rec.Decider, rec.Surface, ui.You))
	s.Add("process", ui.Choose(rec.Peer == nil, display.Text(rec.Decider), ""))
	s.Add("asked by", ui.Choose(rec.Surface == record.SurfaceHost && rec.Decider == "", "the agent itself, which asks its own user; what comes of that is its claim", ""))
	s.Add("approver", ui.Claimed(rec.Approver, rec.Surface))
	s.Add("level", display.Name(rec.Level))
	peerLines(s, rec.Peer)
	s.Add("approved", ui.Choose(rec.Auto, "automatically, because of the profile", ""))
	s.Add("forwarded", ui.Choose(rec.Forwarded, "yes", ""))
	s.Add("latency", ui.Choose(rec.LatencyUS > 0, display.Safe((time.Duration(rec.LatencyUS)*time.Microsecond).String()), ""))
	s.Add("attachment", display.Name(rec.Attachment)+ui.Choose(rec.Call > 0, " call "+display.Count(rec.Call), ""))
	s.Add("rule set", display.Name(rec.Set))
	s.Add("written", display.Name(rec.Digest))
	s.Add("prev hash", display.Name(rec.Prev))
	s.Add("hash", display.Safe(sum))
	return s
}

// callLine names what was called, and the direction unless the agent was the caller.
func callLine(rec *record.Record) display.Safe {
	direction := ui.Choose(rec.Direction != "agent_to_server", display.Name(strings.ReplaceAll(rec.Direction, "_", " ")), "")
	return display.Name(rec.Method) + ui.Spaced(display.Name(rec.Tool)) + ui.Spaced(ui.Parens(direction))
}

// peerLines lists what the kernel reported about the process that answered or asked.
func peerLines(s *ui.Sheet, p *record.Peer) {
	if p == nil {
		return
	}
	how := ui.Choose(p.Handle, "by a kernel handle", "by pid and start time")
	s.Add("seen as", display.Safe(fmt.Sprintf("uid %d, pid %d, started at tick %d, identified ", p.UID, p.PID, p.Start))+how)
	s.Add("program", display.Text(p.Exe))
	s.Add("terminal", display.Text(cmp.Or(p.TTY, "none")))
	s.Add("foreground", ui.Choose(p.TTY != "", display.Text(p.Foreground), ""))
	s.Add("cgroup", display.Text(p.Cgroup))
	for i, process := range p.Above {
		s.Add(string(ui.Choose(i == 0, "below", "")), display.Text(process))
	}
}
