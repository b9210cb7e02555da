package scan

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

const (
	maxShown   = 30 // different calls that are shown without --all
	mostUnread = 5  // sentences about what was not read
)

func (s *scan) print() error {
	if s.AsJSON {
		for _, list := range []func() error{
			func() error { return ui.PrintAllJSON(s.App, s.servers) }, func() error { return ui.PrintAllJSON(s.App, s.keys) },
			func() error { return ui.PrintAllJSON(s.App, s.calls) },
		} {
			if err := list(); err != nil {
				return err
			}
		}
		s.summary.Unread = ui.List(s.summary.Unread)
		return s.PrintJSON(s.summary)
	}
	sheet := &ui.Sheet{}
	s.addUngoverned(sheet)
	for _, k := range s.keys {
		sheet.Add("keys", display.Text(s.Tilde(k.File))+": "+display.Name(k.Place)+ui.AfterColon(display.Text(k.What)))
	}
	for i, what := range s.summary.Unread {
		if i == mostUnread {
			sheet.Add("not read", "and "+display.Count(len(s.summary.Unread)-i)+" more, which --json lists")
			break
		}
		sheet.Add("not read", display.Text(s.TildeIn(what)))
	}
	if len(sheet.Names) > 0 {
		sheet.Values[len(sheet.Values)-1] += "\n"
		if err := s.PrintSheet(sheet); err != nil {
			return err
		}
	}
	left, err := s.printCalls()
	if err != nil {
		return err
	}
	lines := display.Wrap(s.verdicts(), s.Width())
	if unclear := s.unclear(); unclear != "" {
		lines = append(lines, display.Wrap(unclear, s.Width())...)
	}
	if left > 0 {
		lines = append(lines, display.Wrap(ui.Plural(left, "older call is", "older calls are")+" not shown: tgctl scan --all", s.Width())...)
	}
	return s.PrintLines(append(lines, "", "To go on: "+s.next()))
}

// addUngoverned adds a line for each agent of which something is not governed.
func (s *scan) addUngoverned(sheet *ui.Sheet) {
	for _, survey := range s.agents {
		var could, not []display.Safe
		for _, one := range s.servers {
			switch {
			case one.Agent != survey.Agent:
			case one.Why == "":
				could = append(could, display.Name(one.ID))
			default:
				not = append(not, display.Name(survey.Agent)+": "+display.Name(one.ID)+", "+display.Text(one.Why))
			}
		}
		parts := ui.NonEmpty(
			ui.Choose(len(could) > 0, ui.Plural(len(could), "server", "servers")+" ("+ui.Join(could, ", ")+")", ""),
			ui.Choose(ownToolsOpen(survey), "its own tools", ""))
		sheet.Add("not governed", ui.Choose(len(parts) > 0, display.Name(survey.Agent)+": "+ui.Join(parts, ", "), ""))
		sheet.Add("can't be yet", not...)
	}
}

// ownToolsOpen reports whether the agent's own tools could be governed, and are not.
func ownToolsOpen(survey agentconf.Survey) bool {
	return survey.Tools != nil && survey.Tools.Proven && survey.Tools.Governed == agentconf.NotGoverned
}

// group is calls that are the same to a reader.
type group struct {
	call
	times int
}

// printCalls prints the calls that are listed, and returns how many are left out.
func (s *scan) printCalls() (left int, err error) {
	var groups []*group
	for _, c := range slices.Backward(s.calls) {
		if c.Perhaps != "" && !s.all {
			continue
		}
		same := slices.IndexFunc(groups, func(g *group) bool {
			return g.Verdict == c.Verdict && g.Agent == c.Agent && g.Project == c.Project && g.Server == c.Server && g.Tool == c.Tool && g.Reason == c.Reason && bytes.Equal(g.Arguments, c.Arguments)
		})
		switch {
		case same >= 0 && !s.all:
			groups[same].times++
		case len(groups) >= maxShown && !s.all:
			left++
		default:
			groups = append(groups, &group{c, 1})
		}
	}
	if len(groups) == 0 {
		return left, nil
	}
	slices.Reverse(groups)
	t := &display.Table{Columns: []display.Column{{Head: "WOULD", Tone: ui.ToneOf}, {Head: "WHEN"}, {Head: "AGENT", Shrink: 8}, {Head: "PROJECT", Shrink: 12}, {Head: "CALL", Shrink: 10}}}
	for _, g := range groups {
		name := display.Name(g.Tool)
		if g.Server != agenthook.Server {
			name = display.Name(g.Server) + "/" + name
		}
		name += ui.Choose(g.times > 1, ", "+display.Count(g.times)+" times", "")
		t.Add(word(g.call), s.when(g.At), display.Name(g.Agent), s.project(g.Project), name)
		t.Note(s.about(g.call))
		t.Note(display.Text(g.Reason))
	}
	if err := s.PrintTable(t); err != nil {
		return left, err
	}
	return left, s.PrintLines([]display.Safe{""})
}

// about shows the arguments of a call in about two lines: of an agent's own tool what it is about.
func (s *scan) about(c call) display.Safe {
	room := cmp.Or(max(2*(s.Width()-len("forward")-2), 0), ui.ShortRoom)
	if arguments := rawjson.Read(c.Arguments); c.Server == agenthook.Server {
		for _, name := range []string{"command", "path", "url", "query", "prompt", "patch"} {
			if text := arguments.OptionalText(name); text != "" && arguments.Err() == nil {
				return display.Fit(display.Text(text), room)
			}
		}
	}
	if len(c.Arguments) == 0 {
		return ""
	}
	return display.JSONLine(c.Arguments, room, "")
}

// longestProject is how many columns a project's path may take. Of a longer one the end is shown.
const longestProject = 24

func (s *scan) project(path string) display.Safe {
	path = s.Tilde(path)
	if shown := display.Text(path); display.Width(shown) <= longestProject || s.Width() == 0 {
		return shown
	}
	return "…/" + display.Text(filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)))
}

// word says what would have become of a call.
func word(c call) display.Safe {
	if c.Perhaps != "" {
		return "unclear"
	}
	return display.Name(c.Verdict)
}

// when shows the time of a call: of today without the day, and of another year without the time.
func (s *scan) when(at time.Time) display.Safe {
	at, now := at.In(s.Now().Location()), s.Now()
	switch {
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return display.Safe(at.Format("15:04"))
	case at.Year() == now.Year():
		return display.Safe(at.Format("Jan _2 15:04"))
	}
	return display.Safe(at.Format("2006-01-02"))
}

// judgedBy names what the calls were judged by.
func (s *scan) judgedBy() display.Safe {
	if s.config == "" {
		return "the default"
	}
	return display.Text(s.Tilde(s.config))
}

// verdicts says in a sentence what would have become of the calls.
func (s *scan) verdicts() display.Safe {
	c := s.summary
	days := ui.Plural(s.days, "day", "days")
	if c.Calls == 0 {
		return "No tool calls of the last " + days + " were found in transcripts of " + ui.Join(ui.Map(ui.Filter(withTranscripts(), s.isWanted), display.Name), ", ") + "."
	}
	return "Of " + ui.Plural(c.Calls, "tool call", "tool calls") + " in " + days + " (" + ui.Plural(c.Conversations, "conversation", "conversations") + "), " +
		s.judgedBy() + " would have denied " + display.Count(c.Denied) + " and asked about " + display.Count(c.Asked) + "."
}

// unclear says of how many calls the verdict depends on the disk as it was.
func (s *scan) unclear() display.Safe {
	n := s.summary.Unclear
	if n == 0 {
		return ""
	}
	return ui.Plural(n, "call is", "calls are") + " unclear: what deletes or discards something is asked about only if that was in no commit then" + ui.Choose(s.all, "", " (shown by --all)") + "."
}

// next returns the command to go on with: it protects the agent with the most calls of which something
// could be governed.
func (s *scan) next() display.Safe {
	var open []string
	for _, survey := range s.agents {
		if ownToolsOpen(survey) || slices.ContainsFunc(s.servers, func(one server) bool { return one.Agent == survey.Agent && one.Why == "" }) {
			open = append(open, survey.Agent)
		}
	}
	if len(open) == 0 {
		return "tgctl status"
	}
	slices.SortStableFunc(open, func(x, y string) int {
		return cmp.Or(cmp.Compare(s.summary.ByAgent[y], s.summary.ByAgent[x]), strings.Compare(x, y))
	})
	return "tgctl protect " + display.Name(open[0])
}
