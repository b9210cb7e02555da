package wrap

import (
	"cmp"
	"fmt"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

const (
	// dryColumns is the width of a dry run's output if the terminal's width is unknown.
	dryColumns = 80
	// nameColumns limits the width of names, so that there is room for the reasons.
	nameColumns = 32
)

// showDiff prints the changes as a diff, and whether each server would be governed. It works
// without a daemon, so it takes the path of the socket from the environment.
func (w *wrapping) showDiff() error {
	paths, err := sock.DefaultPaths(w.Getenv)
	if err != nil {
		return err
	}
	if err := w.plan.Prepare(w.line(paths.ShimSocket())); err != nil {
		return err
	}
	w.warn(w.plan.Warnings())
	if err := w.listServers(); err != nil {
		return err
	}
	for _, hint := range loginHints(w.plan.Agent(), w.plan.Remotes()) {
		w.message("%s", hint)
	}
	w.reportWay(w.message)
	return w.PrintDiff(w.plan.Diff())
}

// listServers prints for each server whether it would be governed, file by file.
func (w *wrapping) listServers() error {
	var table *display.Table
	file, left := "", 0
	var governed []string // as the wrap itself will count them
	flush := func() error {
		if table == nil {
			return nil
		}
		fmt.Fprintf(w.Err, "\n%s\n", display.Text(file))
		return table.Write(w.Err, cmp.Or(w.Width(), dryColumns), w.ErrPaint())
	}
	for _, e := range w.plan.Entries() {
		if table == nil || e.File != file {
			if err := flush(); err != nil {
				return err
			}
			file, table = e.File, &display.Table{Columns: []display.Column{{Head: "SERVER"}, {Head: "SCOPE", Shrink: 8}, {Head: "GOVERNED", Tone: ui.ToneOf}}}
		}
		is := display.Safe("yes")
		switch {
		case !isGoverned(e):
			is = "no"
			left++
		case isStarted(e):
			governed = append(governed, e.ID)
		}
		table.Add(display.Fit(display.Name(e.ID), nameColumns), display.Text(e.Scope), is)
		if e.Off != agentconf.Starts {
			table.Note("not started by the agent: " + display.Text(e.NotStarted()))
		}
		if e.Ungoverned != "" {
			table.Note(display.Text(e.Ungoverned))
		} else if e.From != "" {
			table.Note("comes with the project: started once you accept what it would run")
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if w.plan.HooksTools() {
		w.PrintMessage("\nthe own tools of %s would be judged before each use", w.plan.Agent())
	}
	w.PrintMessage("\n%s of %s would be governed, %d not; nothing was changed.",
		ui.Plural(len(ui.Unique(governed)), "server", "servers"), w.plan.Agent(), left)
	return nil
}
