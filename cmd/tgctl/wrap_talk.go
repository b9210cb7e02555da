package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// tell prints a message to the person while the agent has the terminal. The caller must escape
// arguments from outside.
func (w *wrapping) tell(format string, args ...any) {
	w.PrintMessage("thoughtgate: "+format, args...)
}

// detail is like tell, but only prints with --verbose.
func (w *wrapping) detail(format string, args ...any) {
	if w.verbose {
		w.tell("%s", display.Text(fmt.Sprintf(format, args...)))
	}
}

// warn prints warnings.
func (w *wrapping) warn(warnings []string) {
	for _, warning := range warnings {
		w.tell("warning: %s", display.Text(warning))
	}
}

// tellWay says how the agent is made to start its servers through tg-shim.
func (w *wrapping) tellWay(tell func(string, ...any)) {
	if w.why != "" {
		tell("no flag or variable is passed to %s: %s", w.plan.Agent(), display.Text(w.why))
	}
	if how := w.plan.How(); how != "" {
		tell("%s: %s", w.plan.Agent(), display.Text(how))
	}
}

// announce prints one line with the governed servers and one with the others.
func (w *wrapping) announce() {
	w.warn(w.plan.Warnings())
	var governed, left []string
	for _, e := range w.plan.Entries() {
		switch {
		case e.Ungoverned != "" && !e.Offers():
			left = append(left, string(display.Name(e.ID))+": "+string(display.Text(e.Ungoverned)))
		case e.Offers() || e.Off == agentconf.Starts || e.Off == agentconf.Pending:
			governed = append(governed, string(display.Name(e.ID)))
			w.detail("%s, of %s in %s: %s", e.ID, e.Scope, e.File, strings.Join(append([]string{e.Command}, e.Args...), " "))
			w.governed = append(w.governed, e.ID)
		default:
			w.detail("%s in %s does not start: %s", e.ID, e.Scope, e.NotStarted())
		}
	}
	governed, w.governed = ui.Unique(governed), ui.Unique(w.governed)
	suffix := ui.Choose(w.profile == pb.Profile_PROFILE_DEVELOPMENT, "development: everything is forwarded and recorded", "answer questions with `tgctl approvals`")
	w.tell("governing %s of %s (%s); %s", ui.Plural(len(governed), "server", "servers"), w.plan.Agent(), strings.Join(governed, ", "), suffix)
	if len(left) > 0 {
		w.tell("not governed: %s", strings.Join(left, "; "))
	}
	if slices.ContainsFunc(w.plan.Entries(), func(e *agentconf.Entry) bool { return e.Protected }) {
		w.tell("%s is protected: its servers are part of this session, and its tg-shim entries are kept afterwards", w.plan.Agent())
	}
	w.tellWay(w.detail)
}

// tellCame warns at the end about expected servers that did not attach. served reports whether
// the daemon knows of a server that this process may have missed.
func (w *wrapping) tellCame(served bool) {
	missing := ui.Filter(w.governed, func(id string) bool { return !w.came[id] })
	switch {
	case len(w.came) == 0 && !served:
		w.tell("warning: nothing was governed: no server of %s connected to this session", w.plan.Agent())
	case w.taken && len(w.came) > 0 && len(missing) > 0:
		w.tell("warning: %s never connected to this session; those that an already running instance had started were not governed", ui.NameList(missing))
	}
}

// tellTaken warns, once, that the command seems to have handed over to an instance that was
// already running.
func (w *watch) tellTaken() {
	if w.taken {
		return
	}
	w.taken = true
	which := ""
	if len(w.app.before) > 0 {
		which = fmt.Sprintf(" (process %d)", w.app.before[0])
	}
	w.tell("warning: %s seems to have handed over to an already running instance%s; the servers that it started stay ungoverned until it restarts them: %s",
		display.Text(w.argv[0]), which, ui.NameList(w.governed))
}
