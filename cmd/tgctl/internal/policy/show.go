package policy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// diffsJSON adds to a set the diffs of its changed files, by path.
type diffsJSON struct {
	Diffs map[string]string `json:"diffs"`
}

func diffsOf(files []*pb.PolicyFile) diffsJSON {
	out := diffsJSON{map[string]string{}}
	for _, f := range files {
		if diff := diffOf(f); diff != "" {
			out.Diffs[f.GetPath()] = diff
		}
	}
	return out
}

// printDetail prints the tables of a set, and the diffs of files that have changed.
func (a *app) printDetail(set *pb.PolicySet) error {
	for _, t := range DetailTables(set) {
		fmt.Fprintln(a.Out)
		if err := a.PrintTable(t); err != nil {
			return err
		}
	}
	return a.printDiffs(set.GetFiles())
}

// actionTone returns the tone of what a rule does: with the action approve, a person is asked.
func actionTone(does display.Safe) display.Tone {
	if first, _, _ := strings.Cut(string(does), " "); first == "approve" || first == "ask" {
		return display.Held
	}
	return ui.ToneOf(does)
}

// DetailTables lists the rules, policies, workflows, agents that ask, servers and files of a set. What the
// set does not have has no table.
func DetailTables(set *pb.PolicySet) []*display.Table {
	d := set.GetDetail()
	rules := &display.Table{Columns: []display.Column{{Head: "RULE", Shrink: 16}, {Head: "SERVERS", Shrink: 8}, {Head: "ACTION", Tone: actionTone}, {Head: "AT"}}}
	for _, e := range d.GetRules() {
		rules.Add(display.Text(e.GetCited().GetName()), anyOf(e.GetSources()), doesOf(e), placeOf(e.GetCited()))
		rules.Note(ui.Choose(len(e.GetAgents()) > 0, "agents "+anyOf(e.GetAgents()), ""))
		rules.Note(ui.Choose(len(e.GetMethods()) > 0, "methods "+anyOf(e.GetMethods()), ""))
		rules.Note(ui.Choose(e.GetUndo(), "copies what it destroys, for tgctl undo", ""))
	}
	policies := &display.Table{Columns: []display.Column{{Head: "POLICY", Shrink: 16}, {Head: "ACTION", Tone: actionTone}, {Head: "AT"}}}
	for _, e := range d.GetPolicies() {
		policies.Add(display.Text(e.GetCited().GetName()), doesOf(e), placeOf(e.GetCited()))
	}
	workflows := &display.Table{Columns: []display.Column{{Head: "WORKFLOW"}, {Head: "DESTINATION"}, {Head: "TIMEOUT"}, {Head: "APPROVED FROM"}, {Head: "AT"}}}
	for _, w := range d.GetWorkflows() {
		asks := display.Name(w.GetAsks()) + ui.Choose(w.GetRequire() == approval.LevelPresence, ", "+approval.LevelPresence, "")
		workflows.Add(display.Name(w.GetName()), asks, display.Span(w.GetTimeout().AsDuration()), anyOf(w.GetSurfaces()), placeOf(&pb.Citation{File: w.GetFile(), Line: w.GetLine()}))
		if s := w.GetSlack(); s != nil {
			workflows.Note("in " + display.Name(s.GetChannel()) + ", answered by " + anyOf(s.GetApprovers()))
		}
		workflows.Note(ui.Choose(len(w.GetRedact()) > 0, "redacted: "+anyOf(w.GetRedact()), ""))
	}
	sources := &display.Table{Columns: []display.Column{{Head: "SERVER", Shrink: 8}, {Head: "ACTION", Tone: ui.ToneOf}, {Head: "AT"}}}
	for _, e := range d.GetSources() {
		sources.Add(display.Text(e.GetCited().GetName()), display.Name(e.GetCited().GetDoes()), placeOf(e.GetCited()))
		sources.Note(display.Text(e.GetCited().GetSays()))
	}
	agents := &display.Table{Columns: []display.Column{{Head: "AGENT"}, {Head: "ASKS"}}}
	for _, agent := range set.GetNatively() {
		agents.Add(display.Name(agent), AsksNatively)
	}
	return withRows(rules, policies, workflows, agents, sources, filesTable(set.GetFiles()))
}

// withRows returns those of the tables that have rows.
func withRows(tables ...*display.Table) []*display.Table {
	return ui.Filter(tables, func(t *display.Table) bool { return len(t.Rows) > 0 })
}

// doesOf says what an entry does and which workflow asks.
func doesOf(e *pb.PolicyEntry) display.Safe {
	return display.Name(e.GetCited().GetDoes()) + ui.Choose(e.GetWorkflow() != "", " by "+display.Name(e.GetWorkflow()), "")
}

// placeOf names a place by its file's base name; the files are listed in full.
func placeOf(c *pb.Citation) display.Safe {
	if c.GetFile() == "" {
		return "built in" + ui.Choose(c.GetFleet(), ", of the fleet", "")
	}
	return display.Text(filepath.Base(c.GetFile())) + ":" + display.Safe(strconv.Itoa(int(c.GetLine()))) + ui.Choose(c.GetFleet(), ", of the fleet", "")
}

func anyOf(words []string) display.Safe {
	return display.Text(cmp.Or(strings.Join(words, ", "), "any"))
}

// diffOf returns a unified diff from the loaded text of a file to the text on disk. It is empty
// if the file has not changed, and a sentence if the loaded text is unknown.
func diffOf(f *pb.PolicyFile) string {
	if !f.GetChanged() {
		return ""
	}
	if f.GetLoaded() == nil {
		return "the loaded text is not available\n"
	}
	was := strings.ReplaceAll(string(f.GetLoaded()), "\r\n", "\n")
	// A file that was removed or cannot be read counts as empty.
	now := strings.Join(ui.ReadLines(f.GetPath()), "\n")
	return udiff.Unified(f.GetPath()+" (in force)", f.GetPath()+" (on disk)", was, now)
}

// printDiffs prints the diffs of files that have changed.
func (a *app) printDiffs(files []*pb.PolicyFile) error {
	for _, f := range files {
		diff := diffOf(f)
		if diff == "" {
			continue
		}
		lines := ui.Map(strings.Split("\n"+strings.TrimSuffix(diff, "\n"), "\n"), func(line string) ui.Line {
			return ui.Line{Text: display.Text(strings.ReplaceAll(line, "\t", "    ")), Tone: ui.DiffTone(line)}
		})
		if err := a.PrintToned(lines); err != nil {
			return err
		}
	}
	return nil
}
