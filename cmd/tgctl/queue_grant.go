package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// shaping is a grant that is being shaped: what approve is told with flags. It says
// the same as they do, and is read by the same code.
type shaping struct {
	at    int    // the row that keys are for
	match int    // of shapeMatches
	names []name // of the arguments
	span  string // as typed
	times string // likewise; empty: any number
	in    int    // of shapeScopes
	sure  bool   // it is asked whether to grant that
	top   int    // the first line of it on the screen, while that is asked
	below int    // lines of it below the screen, when it was drawn last
	most  int    // of it those that were on the screen
	all   int
}

// name is the name of an argument that further calls can be held to.
type name struct {
	text   string
	value  display.Safe // in short
	chosen bool
}

// choice is a word of the command line, and what it says.
type choice struct{ word, says display.Safe }

// What the rows can be set to. Each list begins with what holds when nothing is said.
var (
	shapeMatches = []choice{
		{"args", "every byte of the arguments is the same"}, {"arg=NAME", "the arguments chosen below are the same"}, {"tool", "any arguments"},
	}
	shapeScopes = []choice{{"session", "in this run of the agent"}, {"project", "in every wrap of the same folder"}, {"always", "wherever this type of agent calls"}}
	shapeSpans  = []string{"5m", "15m", "1h", "8h", "1d", "7d", "30d"}
	shapeTimes  = []string{"", "1", "2", "3", "5", "10", "100"}
)

const (
	matchSome = 1 // of shapeMatches

	// shapedMost is how long what is typed into a row may be, in bytes.
	shapedMost = 12
)

// newShaping begins a grant for calls like q.
func newShaping(q *pb.Approval) *shaping {
	return &shaping{names: namesOf(comparedPart(q)), span: string(display.Span(usualGrant))}
}

// namesOf are the members of raw arguments that have a name.
func namesOf(raw []byte) []name {
	var names []name
	members, _ := rawjson.Members(raw)
	for _, m := range members {
		if m.Name != "" {
			names = append(names, name{text: m.Name, value: clipped(display.JSONLine(m.Value, pastShort, ""))})
		}
	}
	return names
}

// rows is how many rows there are.
func (s *shaping) rows() int {
	if s.match == matchSome {
		return 4 + len(s.names)
	}
	return 4
}

// row is what a row is: "match", "name", "for", "times" or "in"; of a name also
// which one.
func (s *shaping) row(at int) (kind string, n int) {
	names := s.rows() - 4
	switch {
	case at == 0:
		return "match", 0
	case at <= names:
		return "name", at - 1
	}
	return []string{"for", "times", "in"}[at-names-1], 0
}

// flags are those of the command line that say the same.
func (s *shaping) flags() (*grantFlags, error) {
	f := &grantFlags{span: s.span, in: string(shapeScopes[s.in].word)}
	switch {
	case s.match != matchSome:
		f.match = []string{string(shapeMatches[s.match].word)}
	default:
		for _, name := range s.names {
			if name.chosen {
				f.match = append(f.match, "arg="+name.text)
			}
		}
		if len(f.match) == 0 {
			return nil, errors.New("--match: choose at least one argument that must be the same")
		}
	}
	if s.span == "" {
		return nil, errors.New("--for: give a time, as 1h or 7d")
	}
	if s.times != "" {
		var err error
		if f.times, err = strconv.ParseUint(s.times, 10, 64); err != nil {
			return nil, errors.New("--times: give a number")
		}
	}
	return f, nil
}

// terms are those of the grant, or why there can be none.
func (s *shaping) terms() (*pb.GrantTerms, error) {
	f, err := s.flags()
	if err != nil {
		return nil, err
	}
	return f.terms()
}

// sentence says what would be granted, in the words that say what was.
func (s *shaping) sentence(q *pb.Approval) (display.Safe, error) {
	terms, err := s.terms()
	if err != nil {
		return "", err
	}
	return "Beside this call: " + grantTerms(&pb.Grant{
		Match: terms.GetMatch(), Arguments: terms.GetArguments(), Scope: terms.GetScope(), Session: q.GetSession(), Times: terms.GetTimes(),
	}, terms.GetFor().AsDuration()) + ".", nil
}

// press tells of a key. It reports whether the grant is to be given, or no more
// wanted.
func (s *shaping) press(key, text string) (give, leave bool) {
	if s.sure {
		switch key {
		case "y", "Y":
			return s.most >= s.all, false // what can't be seen is not granted
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
		s.at = min(s.at+1, s.rows()-1)
	case "home":
		s.at = 0
	case "end":
		s.at = s.rows() - 1
	case "enter":
		_, err := s.terms()
		s.sure, s.top, s.most = err == nil, 0, 0
	default:
		s.set(key, text)
	}
	return false, false
}

// set changes the row that keys are for.
func (s *shaping) set(key, text string) {
	step := map[string]int{"left": -1, "right": 1, "space": 1}[key]
	kind, n := s.row(s.at)
	switch {
	case kind == "name" && step != 0:
		s.names[n].chosen = !s.names[n].chosen
	case kind == "match":
		s.match = turned(s.match, step, len(shapeMatches))
	case kind == "in":
		s.in = turned(s.in, step, len(shapeScopes))
	case kind == "for":
		s.span = typedOr(s.span, key, text, step, shapeSpans, "0123456789smhd.")
	case kind == "times":
		s.times = typedOr(s.times, key, text, step, shapeTimes, "0123456789")
	}
}

// turned is the choice that lies step further than at, of n.
func turned(at, step, n int) int { return (at + step + n) % n }

// typedOr is what a key makes of a text: the next of some usual ones, or the text as
// typed, of letters that can stand in it.
func typedOr(was, key, text string, step int, usual []string, letters string) string {
	at := slices.Index(usual, was)
	switch {
	case step != 0 && at < 0:
		return usual[0]
	case step != 0:
		return usual[turned(at, step, len(usual))]
	case key == "backspace":
		return was[:max(0, len(was)-1)]
	case key == "ctrl+u":
		return ""
	case text == "" || len(was)+len(text) > shapedMost || strings.Trim(text, letters) != "":
		return was
	}
	return was + text
}
