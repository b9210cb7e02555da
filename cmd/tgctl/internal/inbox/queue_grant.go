package inbox

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// grantForm is the form for the terms of a grant. Its fields correspond to the flags of approve,
// and the same code parses them.
type grantForm struct {
	match, span, times, in *field
	names                  []*field // one for each argument; shown while match is matchSome

	at    int  // index of the row that receives keys
	sure  bool // asking for confirmation
	top   int  // first line of the sentence on the screen, while asking for confirmation
	below int  // lines of the sentence below the screen when it was last drawn
	most  int  // lines of the sentence that have been on the screen
	all   int
}

// field is a row of a shaping.
type field struct {
	label   display.Safe
	value   string                  // in the syntax of the command line
	usual   []string                // values that the arrow keys select
	letters string                  // characters that can be typed; empty: none
	says    map[string]display.Safe // what values mean
	other   display.Safe            // what all other values mean

	name  string       // name of an argument that further calls must repeat; the value is "" or matchSome
	shown display.Safe // the argument's value, shortened
}

const (
	matchSome = "arg=NAME"

	// shapedMost is the maximum length in bytes of a typed value.
	shapedMost = 12
)

// newShaping returns a form for a grant for calls like q.
func newShaping(q *pb.Approval) *grantForm {
	s := &grantForm{
		match: &field{label: "match", value: "args", usual: []string{"args", matchSome, "tool"}, says: map[string]display.Safe{
			"args": "the same arguments, byte for byte", matchSome: "the arguments selected below are equal", "tool": "any arguments",
		}},
		span: &field{label: "for", value: usualGrantTyped, usual: []string{"5m", "15m", "1h", "8h", "1d", "7d", "30d"},
			letters: "0123456789smhd.", other: "30d at most"},
		times: &field{label: "times", usual: []string{"", "1", "2", "3", "5", "10", "100"},
			letters: "0123456789", says: map[string]display.Safe{"": "any number of calls"}, other: "further calls"},
		in: &field{label: "in", value: "session", usual: []string{"session", "project", "always"}, says: map[string]display.Safe{
			"session": "in this run of the agent", "project": "in all sessions in the same folder", "always": "in all sessions of this type of agent",
		}},
	}
	members, _ := rawjson.Members(comparedPart(q))
	for _, m := range members {
		if m.Name != "" {
			s.names = append(s.names, &field{name: m.Name, usual: []string{"", matchSome}, shown: approval.Clipped(display.JSONLine(m.Value, pastArgumentColumns, ""))})
		}
	}
	return s
}

// rows returns the visible fields from top to bottom.
func (s *grantForm) rows() []*field {
	rows := []*field{s.match}
	if s.match.value == matchSome {
		rows = append(rows, s.names...)
	}
	return append(rows, s.span, s.times, s.in)
}

// terms returns the terms of the grant, or an error that says what is missing.
func (s *grantForm) terms() (*pb.GrantTerms, error) {
	f := &grantFlags{span: s.span.value, in: s.in.value, match: []string{s.match.value}}
	if s.match.value == matchSome {
		f.match = nil
		for _, name := range s.names {
			if name.value != "" {
				f.match = append(f.match, "arg="+name.name)
			}
		}
	}
	if len(f.match) == 0 {
		return nil, errors.New("--match: select at least one argument that must be equal")
	}
	if f.span == "" {
		return nil, errors.New("--for: enter a time such as 1h or 7d")
	}
	var err error
	if f.times, err = strconv.ParseUint(cmp.Or(s.times.value, "0"), 10, 64); err != nil {
		return nil, errors.New("--times: enter a number")
	}
	return f.terms()
}

// sentence says what would be granted, in the same words as for an existing grant.
func (s *grantForm) sentence(q *pb.Approval) (display.Safe, error) {
	terms, err := s.terms()
	if err != nil {
		return "", err
	}
	return "It also approves " + grantTerms(&pb.Grant{
		Match: terms.GetMatch(), Arguments: terms.GetArguments(), Scope: terms.GetScope(), Session: q.GetSession(), Times: terms.GetTimes(),
	}, terms.GetFor().AsDuration()) + ".", nil
}

// press handles a key. give reports that the grant is confirmed, leave that the form is left.
func (s *grantForm) press(key, text string) (give, leave bool) {
	if s.sure {
		switch key {
		case "y", "Y":
			return s.most >= s.all, false // a grant counts only if all of it was shown
		case "up", "k":
			s.top--
		case "down", "j", "space", "pgdown":
			s.top++
		default:
			s.sure = false
		}
		return false, false
	}
	switch key {
	case "esc":
		return false, true
	case "up", "shift+tab":
		s.at = max(0, s.at-1)
	case "down", "tab":
		s.at = min(s.at+1, len(s.rows())-1)
	case "home":
		s.at = 0
	case "end":
		s.at = len(s.rows()) - 1
	case "enter":
		_, err := s.terms()
		s.sure, s.top, s.most = err == nil, 0, 0
	default:
		s.rows()[s.at].press(key, text)
	}
	return false, false
}

// press changes the field's value. The arrow keys and space select among the usual values;
// allowed characters are appended.
func (f *field) press(key, text string) {
	at, step := slices.Index(f.usual, f.value), map[string]int{"left": -1, "right": 1, "space": 1}[key]
	switch {
	case step != 0 && at < 0:
		f.value = f.usual[0]
	case step != 0:
		f.value = f.usual[(at+step+len(f.usual))%len(f.usual)]
	case f.letters == "":
	case key == "backspace":
		f.value = f.value[:max(0, len(f.value)-1)]
	case key == "ctrl+u":
		f.value = ""
	case len(f.value)+len(text) <= shapedMost && strings.Trim(text, f.letters) == "":
		f.value += text
	}
}

// line formats the field as a line.
func (f *field) line() display.Safe {
	value := display.Safe(f.value)
	switch {
	case f.name != "" && f.value == "":
		return "  [ ] " + display.Name(f.name) + "  " + f.shown
	case f.name != "":
		return "  [x] " + display.Name(f.name) + "  " + f.shown
	case f.letters != "":
		value += "_"
	}
	return padded(f.label, 6, false) + padded(value, 9, false) + " " + cmp.Or(f.says[f.value], f.other)
}

// lines draws the form in columns columns and room lines. While it asks for confirmation it
// shows the sentence instead, which can be longer than room and is scrolled.
func (s *grantForm) lines(q *pb.Approval, columns, room int) []line {
	says, err := s.sentence(q)
	if err != nil {
		says = display.Text(err.Error())
	}
	said := display.Wrap(says, columns)
	if s.sure {
		s.top = max(0, min(s.top, len(said)-room))
		last := min(s.top+room, len(said))
		if s.all != len(said) { // the size of the screen has changed
			s.most = 0
		}
		s.below, s.most, s.all = len(said)-last, max(s.most, last), len(said)
		return plain(said[s.top:last])
	}
	var rows []line
	for at, f := range s.rows() {
		rows = append(rows, line{text: ui.Choose(at == s.at, "> ", "  ") + f.line(), strong: at == s.at})
	}
	// The sentence goes below the rows if there is room for a few of them too. It need not be
	// complete here: all of it must be shown before it is granted.
	fit := max(min(len(rows), room), min(4, room))
	if below := room - 1 - len(said); below >= min(4, len(rows)) {
		fit = min(len(rows), below)
	}
	first := max(0, min(s.at-fit/2, len(rows)-fit))
	lines := slices.Clip(rows[first:min(first+fit, len(rows))])
	if len(lines) < room {
		lines = append(append(lines, line{}), plain(said)...)
	}
	return lines[:min(len(lines), room)]
}

// plain converts texts to lines that are not highlighted.
func plain(texts []display.Safe) []line {
	return ui.Map(texts, func(text display.Safe) line { return line{text: text} })
}
