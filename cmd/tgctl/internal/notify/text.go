package notify

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Limits of the texts in a notification, in columns. Desktops cut long texts without a
// mark, so these are short enough for all of them.
const (
	noteTitle  = 72
	noteParams = 200
	noteWhy    = 160
	noteAbout  = 100

	noteParamsLines = 6
)

// questionNote returns the notification of an open question. w is the workflow of the
// question, nil if unknown. Approve is offered only if an approval from the desktop
// counts and all of the call can be read; s.approve is then set.
func (n *notifier) questionNote(r *approval.Row, w *pb.PolicyWorkflow, s *shown) *note {
	id := display.Name(r.ID)
	show := "tgctl approvals show " + id
	title := display.Fit(id+": "+r.Call+" on "+r.Server, noteTitle)
	params := noteParamsText(r, show)
	about := display.Fit("asked by "+r.Agent, noteAbout)
	whole := (r.Params != nil || r.Size == 0) && !slices.ContainsFunc([]display.Safe{title, params, about}, wasCut)
	about += "; subject " + approval.ShortSubject(r.Subject) + ", until " + display.Time(r.Expires, n.now())

	all := note{title: title, urgency: urgencyNormal, stays: true}
	if r.Grave {
		all.urgency = urgencyCritical
	}
	add := func(text display.Safe, strong bool) {
		for part := range strings.SplitSeq(string(text), "\n") {
			if part != "" {
				all.body = append(all.body, line{display.Safe(part), strong})
			}
		}
	}
	add(params, false)
	add(display.Fit(r.Why, noteWhy), false)
	add(about, false)
	switch {
	case r.Login != "":
		add("Nobody can approve this. Log in, in a terminal: "+r.Login, true)
	case !n.desk.hasCapability("actions"):
		add("Answer it in a terminal: "+show, true)
	case r.Proof || w.GetRequire() == approval.LevelPresence:
		add("Approval needs your passphrase or a code, in a terminal: tgctl approvals approve "+id, true)
		if !whole {
			add("To see it in full: "+show, true)
		}
	case !slices.Contains(w.GetSurfaces(), desktopSurface):
		add("To approve it, use a terminal: "+show, true)
	case !whole || !n.desk.hasCapability("body"):
		add("Too long to approve here: "+show, true)
	default:
		s.approve = true
		all.actions = append(all.actions, pressApprove+":"+s.nonce, "Approve")
	}
	all.actions = append(all.actions, pressDeny+":"+s.nonce, "Deny", pressShow+":"+s.nonce, "Show")
	return &all
}

// noteParamsText shows the params of a question in full if they are short. Otherwise it
// shows the beginning and where to see the rest.
func noteParamsText(r *approval.Row, show display.Safe) display.Safe {
	switch {
	case r.Size == 0:
		return ""
	case r.Params == nil:
		return display.Fit(r.Short, noteParams) + " (" + display.Count(r.Size) + " bytes in all; " + show + ")"
	}
	short := display.JSONLine(r.Params, noteParams, show)
	if !wasCut(short) {
		return short
	}
	// JSONLine cuts long strings. Spread over several lines, they may fit in full.
	full := display.JSON(r.Params, 0)
	if strings.Count(string(full), "\n") < noteParamsLines && display.Width(display.Safe(strings.ReplaceAll(string(full), "\n", " "))) <= noteParams && !wasCut(full) {
		return full
	}
	return short
}

// wasCut reports whether s is only a part. The mark of a cut can't be forged: in text
// from outside it is escaped.
func wasCut(s display.Safe) bool { return strings.Contains(string(s), "…") }

// summaryNote returns one notification for all waiting questions. others is how many
// questions are shown by themselves.
func summaryNote(waiting []*question, others int, nonce string) *note {
	counts := map[display.Safe]int{}
	var servers []display.Safe
	for _, q := range waiting {
		if counts[q.row.Server]++; counts[q.row.Server] == 1 {
			servers = append(servers, q.row.Server)
		}
	}
	slices.SortStableFunc(servers, func(a, b display.Safe) int { return counts[b] - counts[a] })
	all := &note{
		title:   ui.Choose(others > 0, ui.Plural(len(waiting), "more question waits", "more questions wait"), ui.Plural(len(waiting), "question waits", "questions wait")),
		urgency: urgencyNormal, stays: true,
		actions: []string{pressShow + ":" + nonce, "Show"},
	}
	const most = 3
	for _, server := range servers[:min(most, len(servers))] {
		all.body = append(all.body, line{text: display.Count(counts[server]) + " from " + display.Fit(server, noteAbout)})
	}
	if rest := len(servers) - most; rest > 0 {
		all.body = append(all.body, line{text: "and from " + ui.Plural(rest, "other server", "other servers")})
	}
	all.body = append(all.body, line{strong: true, text: "Answer them in a terminal: tgctl approvals watch"})
	return all
}
