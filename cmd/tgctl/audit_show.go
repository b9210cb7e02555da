package main

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
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) auditShowCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "show SEQ [flags]",
		Short: "Show one record in full",
		Long: `Show one record in full, with its values. With --json the record is printed as
it is stored, and its values, if it has any, on a second line.`,
		Example: `  $ tgctl audit show 1204
  $ tgctl audit show 1204 --json | head -n 1 | tr -d '\n' | sha256sum`,
		Args:              exactly("SEQ"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || seq == 0 {
				return misuse("invalid record number %q", args[0])
			}
			c, err := a.dial(cmd.Context())
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
			return fmt.Errorf("record %d: %w", seq, client.ErrNotFound)
		},
	}, record.Record{})
}

func (a *app) showRecord(r *pb.AuditRecord) error {
	if a.asJSON {
		if err := a.printLine(r.GetLine()); err != nil || len(r.GetValues()) == 0 {
			return err
		}
		return a.printLine(r.GetValues())
	}
	rec, err := record.Parse(r.GetLine())
	if err != nil {
		return fmt.Errorf("parse record %d: %w; run `tgctl audit verify`", r.GetSeq(), err)
	}
	sum := sha256.Sum256(r.GetLine())
	if err := a.printSheet(a.recordSheet(&rec, hex.EncodeToString(sum[:]))); err != nil {
		return err
	}
	if len(r.GetValues()) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(a.out, "values:\n  %s\n", strings.ReplaceAll(string(display.JSON(r.GetValues(), behind(2, a.width()))), "\n", "\n  "))
	return err
}

// recordSheet lists the members of a record in their order.
func (a *app) recordSheet(rec *record.Record, sum string) *sheet {
	s := &sheet{}
	s.add("record", display.Safe(strconv.FormatUint(rec.Seq, 10))+", "+display.Name(string(rec.Kind)))
	s.add("time", display.Moment(rec.Time, a.now()))
	s.add("log", display.Name(rec.Log))
	s.add("agent", agentLine(rec.Agent, rec.Session))
	s.add("server", display.Name(rec.Server))
	s.add("launch", display.Name(rec.Launch))
	s.add("call", callLine(rec))
	s.add("id", display.Name(rec.ID))
	s.add("message", display.Text(rec.MessageID))
	s.add("verdict", display.Name(rec.Verdict)+spaced(parens(display.Name(rec.Would))))
	s.add("gate", display.Name(rec.Gate))
	s.add("rule", display.Text(rec.Rule))
	s.add("policy", each(rec.Policies, display.Text)...)
	s.add("fact", each(rec.Facts, display.Text)...)
	s.add("extension", each(rec.Extensions, display.Text)...)
	s.add("answered by", display.Name(rec.Answerer))
	s.add("reason", display.Text(rec.Reason))
	s.add("profile", display.Name(rec.Profile))
	s.add("question", display.Name(rec.Approval))
	s.add("parked", choose(rec.Parked, "the agent was told to repeat the call", ""))
	s.add("grant", display.Name(rec.Grant))
	s.add("decider", display.Text(rec.Decider)+spaced(parens(display.Name(rec.Surface))))
	s.add("approver", claimed(rec.Approver, rec.Surface))
	s.add("level", display.Name(rec.Level))
	peerLines(s, rec.Peer)
	s.add("approved", choose(rec.Auto, "automatically, because of the profile", ""))
	s.add("forwarded", choose(rec.Forwarded, "yes", ""))
	if rec.LatencyUS > 0 {
		s.add("latency", display.Safe((time.Duration(rec.LatencyUS) * time.Microsecond).String()))
	}
	s.add("attachment", display.Name(rec.Attachment)+choose(rec.Call > 0, " call "+display.Count(rec.Call), ""))
	s.add("rule set", display.Name(rec.Set))
	s.add("written", display.Name(rec.Digest))
	s.add("prev hash", display.Name(rec.Prev))
	s.add("hash", display.Safe(sum))
	return s
}

// callLine names what was called, and the direction unless the agent was the caller.
func callLine(rec *record.Record) display.Safe {
	line := display.Name(rec.Method) + spaced(display.Name(rec.Tool))
	if rec.Direction != "" && rec.Direction != "agent_to_server" {
		line += spaced(parens(display.Name(strings.ReplaceAll(rec.Direction, "_", " "))))
	}
	return line
}

// peerLines lists what the kernel reported about the process that answered or asked.
func peerLines(s *sheet, p *record.Peer) {
	if p == nil {
		return
	}
	how := choose(p.Handle, "by a kernel handle", "by pid and start time")
	s.add("seen as", display.Safe(fmt.Sprintf("uid %d, pid %d, started at tick %d, identified ", p.UID, p.PID, p.Start))+how)
	s.add("program", display.Text(p.Exe))
	s.add("terminal", display.Text(cmp.Or(p.TTY, "none")))
	s.add("foreground", choose(p.TTY != "", display.Text(p.Foreground), ""))
	s.add("cgroup", display.Text(p.Cgroup))
	for i, process := range p.Above {
		s.add(string(choose(i == 0, "below", "")), display.Text(process))
	}
}
