package wrap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// message prints a message to the person while the agent has the terminal. The caller must escape
// arguments from outside.
func (w *wrapping) message(format string, args ...any) {
	w.PrintMessage("thoughtgate: "+format, args...)
}

// detail is like message, but only prints with --verbose.
func (w *wrapping) detail(format string, args ...any) {
	if w.verbose {
		w.message("%s", display.Text(fmt.Sprintf(format, args...)))
	}
}

// warn prints warnings.
func (w *wrapping) warn(warnings []string) {
	for _, warning := range warnings {
		w.message("warning: %s", display.Text(warning))
	}
}

// reportWay prints how the agent is made to start its servers through tg-shim.
func (w *wrapping) reportWay(print func(string, ...any)) {
	if w.why != "" {
		print("no flag or variable is passed to %s: %s", w.plan.Agent(), display.Text(w.why))
	}
	if how := w.plan.How(); how != "" {
		print("%s: %s", w.plan.Agent(), display.Text(how))
	}
}

// isGoverned reports whether a server is one whose calls are judged, if the agent starts it.
func isGoverned(e *agentconf.Entry) bool { return e.Ungoverned == "" || e.Offers() }

// loginHints returns what to do about servers to which the agent itself would log in: that login can't be
// used, as requests are the daemon's.
func loginHints(agent string, remotes []agentconf.Remote) []string {
	var all []string
	for _, r := range remotes {
		if r.LogsIn() {
			all = append(all, fmt.Sprintf("%s: a login that %s has to it is not used; if it wants one: %s", display.Name(r.Server), display.Name(agent), ui.LoginCommand(r.Server)))
		}
	}
	return all
}

// isStarted reports whether the agent will start a server, as far as is known.
func isStarted(e *agentconf.Entry) bool {
	return e.Offers() || e.Off == agentconf.Starts || e.Off == agentconf.Pending
}

// announce prints one line with the governed servers and one with the others.
func (w *wrapping) announce() {
	w.warn(w.plan.Warnings())
	var governed, left []string
	for _, e := range w.plan.Entries() {
		switch {
		case !isGoverned(e):
			left = append(left, string(display.Name(e.ID))+": "+string(display.Text(e.Ungoverned)))
		case isStarted(e):
			governed = append(governed, string(display.Name(e.ID)))
			what := strings.Join(append([]string{e.Command}, e.Args...), " ")
			if e.Remote != nil {
				what = "host " + e.Remote.Host()
			}
			w.detail("%s, of %s in %s: %s", e.ID, e.Scope, e.File, what)
			w.governed = append(w.governed, e.ID)
		default:
			w.detail("%s in %s does not start: %s", e.ID, e.Scope, e.NotStarted())
		}
	}
	governed, w.governed = ui.Unique(governed), ui.Unique(w.governed)
	suffix := ui.Choose(w.inForce == pb.Profile_PROFILE_DEVELOPMENT, "development: everything is forwarded and recorded", "answer questions with `tgctl approvals`")
	what := fmt.Sprintf("%s of %s (%s)", ui.Plural(len(governed), "server", "servers"), w.plan.Agent(), strings.Join(governed, ", "))
	switch {
	case w.plan.HooksTools() && len(governed) == 0:
		what = "the own tools of " + w.plan.Agent()
	case w.plan.HooksTools():
		what += " and its own tools"
	}
	w.message("governing %s; %s", what, suffix)
	if text := unseen(w.plan.Agent()); w.plan.HooksTools() && text != "" {
		w.detail("%s", text)
	}
	if len(left) > 0 {
		w.message("not governed: %s", strings.Join(left, "; "))
	}
	if slices.ContainsFunc(w.plan.Entries(), func(e *agentconf.Entry) bool { return e.Protected }) {
		w.message("%s is protected: its servers are part of this session, and its tg-shim entries are kept afterwards", w.plan.Agent())
	}
	for _, hint := range loginHints(w.plan.Agent(), w.plan.Remotes()) {
		w.detail("%s", hint)
	}
	w.reportWay(w.detail)
}

// warnOfMissing warns at the end about expected servers that did not attach. served reports whether
// the daemon knows of a server that this process may have missed.
func (w *wrapping) warnOfMissing(served bool) {
	missing := ui.Filter(w.governed, func(id string) bool { return !w.connected[id] })
	switch {
	case len(w.connected) == 0 && !served && len(w.governed) == 0:
		w.message("warning: nothing was governed: %s has run no hook in this session", w.plan.Agent())
	case len(w.connected) == 0 && !served:
		w.message("warning: nothing was governed: no server of %s connected to this session", w.plan.Agent())
	case w.handedOver && len(w.connected) > 0 && len(missing) > 0:
		w.message("warning: %s never connected to this session; those that an already running instance had started were not governed", ui.NameList(missing))
	}
}

// warnOfHandover warns, once, that the command seems to have handed over to an instance that was
// already running.
func (w *watch) warnOfHandover() {
	if w.handedOver {
		return
	}
	w.handedOver = true
	which := ""
	if len(w.app.before) > 0 {
		which = fmt.Sprintf(" (process %d)", w.app.before[0])
	}
	rest := "until it is restarted, it obeys the hooks that it read before"
	if len(w.governed) > 0 {
		rest = "the servers that it started stay ungoverned until it restarts them: " + string(ui.NameList(w.governed))
	}
	w.message("warning: %s seems to have handed over to an already running instance%s; %s", display.Text(w.argv[0]), which, display.Safe(rest))
}
