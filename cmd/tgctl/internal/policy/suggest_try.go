package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// tried is what a suggestion would have done with the recorded calls.
type tried struct {
	Calls     uint64 `json:"calls"`     // calls that were judged again
	Forwarded uint64 `json:"forwarded"` // of them, those that were asked about and would have been forwarded
	First     uint64 `json:"first"`     // number of the first record of those
	Last      uint64 `json:"last"`
	Unknown   uint64 `json:"unknown"` // calls of which the record does not say enough
}

// cedarFile is where the policies of a suggestion are put.
const cedarFile = "policies/suggested.cedar"

// current is the configuration in force, to which suggestions are added.
type current struct {
	set   *pb.PolicySet
	path  string // of its file
	lines []string
	files []string // all of its files, the first included
}

// readCurrent reads the configuration in force. It fails if there is no file, or if what is on disk is not in force.
func readCurrent(set *pb.PolicySet) (*current, error) {
	c := &current{set: set, path: set.GetSource()}
	if c.path == "" {
		return nil, &ui.HintError{
			Err:  errors.New("no configuration file is in force, and what the built-in default asks about is never suggested"),
			Hint: "See what it asks about: docs/facts.md. A file of your own begins with: tgctl policy init",
		}
	}
	for _, f := range set.GetFiles() {
		if f.GetChanged() {
			return nil, &ui.HintError{Err: fmt.Errorf("%s has changed since it was loaded", f.GetPath()), Hint: "Put it in force first: tgctl policy check && tgctl daemon reload"}
		}
		c.files = append(c.files, f.GetPath())
	}
	if c.lines = ui.ReadLines(c.path); c.lines == nil {
		return nil, fmt.Errorf("read %s", c.path)
	}
	return c, nil
}

// ruleAt returns the rule in force with a label, as records have it; nil if there is none, or if it is not of this
// user's file.
func (c *current) ruleAt(label string) *pb.PolicyEntry {
	i := slices.IndexFunc(c.set.GetDetail().GetRules(), func(e *pb.PolicyEntry) bool {
		cited := e.GetCited()
		return cited.GetKind() == "rule" && cited.GetFile() == c.path && cited.GetDoes() == "approve" &&
			label == fmt.Sprintf("%s (%s:%d)", cited.GetName(), filepath.Base(c.path), cited.GetLine())
	})
	if i < 0 {
		return nil
	}
	return c.set.GetDetail().GetRules()[i]
}

// with writes a copy of the configuration with a suggestion into dir, and returns the path of its file.
func (c *current) with(dir string, s *suggestion, line uint32) (string, error) {
	home := filepath.Dir(c.path)
	for _, file := range c.files {
		below, err := filepath.Rel(home, file)
		if err != nil || !filepath.IsLocal(below) {
			return "", fmt.Errorf("%s is not below %s, so the suggestion can't be tried", file, home)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if file == c.path {
			if text, err = insertAbove(c.lines, int(line), s.YAML); err != nil {
				return "", err
			}
		}
		if err := writeBelow(dir, below, text); err != nil {
			return "", err
		}
	}
	if s.Cedar != "" {
		if slices.Contains(c.files, filepath.Join(home, cedarFile)) {
			return "", fmt.Errorf("%s exists already, so the suggestion can't be tried", cedarFile)
		}
		if err := writeBelow(dir, cedarFile, []byte(s.Cedar)); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, filepath.Base(c.path)), nil
}

func writeBelow(dir, name string, text []byte) error {
	to := filepath.Join(dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, text, 0o600))
}

// insertAbove puts rules above the one at a line, which counts from 1, with its indentation.
func insertAbove(lines []string, line int, rules string) ([]byte, error) {
	if line < 1 || line > len(lines) || !strings.HasPrefix(strings.TrimLeft(lines[line-1], " "), "- ") {
		return nil, errors.New("the rule that asks is not in lines of its own, so the suggestion can't be tried")
	}
	at := lines[line-1]
	indent := at[:len(at)-len(strings.TrimLeft(at, " "))]
	var fresh []string
	for rule := range strings.Lines(rules) {
		fresh = append(fresh, indent+strings.TrimPrefix(strings.TrimSuffix(rule, "\n"), "  "))
	}
	return []byte(strings.Join(slices.Concat(lines[:line-1], fresh, lines[line-1:]), "\n")), nil
}

// try judges the recorded calls with a suggestion. It returns why the suggestion is of no use, if it is: it is no valid
// configuration, does other things than it says, or does not do what it says.
func (c *current) try(ctx context.Context, d *client.Client, s *suggestion, line uint32, since time.Time) (display.Safe, error) {
	dir, err := os.MkdirTemp("", "tgctl-suggest-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	config, err := c.with(dir, s, line)
	if err != nil {
		return display.Text(err.Error()), nil
	}
	checked, err := d.Validate(ctx, config)
	if err != nil {
		return "", err
	}
	if checked.GetSet() == nil {
		why := ui.Map(checked.GetProblems(), func(p *pb.Diagnostic) display.Safe { return display.Text(p.GetMessage()) })
		return "it would be no valid configuration: " + ui.Join(why, "; "), nil
	}
	var b Backtested
	for e, err := range d.Backtest(ctx, &pb.BacktestRequest{Config: config, Since: timestamppb.New(since)}) {
		if err != nil {
			return "", err
		}
		b.Add(e)
	}
	return s.judge(&b), nil
}

// judge reads a backtest of s, and returns why s is of no use.
func (s *suggestion) judge(b *Backtested) display.Safe {
	s.Tried = tried{Calls: b.summary.GetCalls()}
	for _, f := range b.flips {
		if f.GetServer() != s.Server || f.GetSubject() != s.Tool || f.GetMethod() != ui.ToolCall || f.GetWas() != "ask" || f.GetWould() != "forward" {
			return "it would also change the verdict of other calls: " + display.Name(f.GetServer()) + ui.Spaced(ui.CallName(f.GetMethod(), f.GetSubject())) + " from " + display.Name(f.GetWas()) + " to " + display.Name(f.GetWould())
		}
		s.Tried.Forwarded += f.GetCalls()
		if s.Tried.First == 0 || f.GetFirst() < s.Tried.First {
			s.Tried.First = f.GetFirst()
		}
		s.Tried.Last = max(s.Tried.Last, f.GetLast())
	}
	for _, u := range b.unknown {
		if u.GetServer() == s.Server && u.GetSubject() == s.Tool {
			s.Tried.Unknown += u.GetCalls()
		}
	}
	if s.Tried.Forwarded < uint64(s.Covers) {
		return "by the record it would have forwarded " + display.Count(s.Tried.Forwarded) + " of the " + display.Count(s.Covers) + " calls that it is for"
	}
	return ""
}
