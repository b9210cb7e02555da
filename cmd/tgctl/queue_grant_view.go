package main

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lines draws the grant in columns columns and room lines, which what is said of it
// may be more than while it is asked for.
func (s *shaping) lines(q *pb.Approval, columns, room int) []line {
	says, err := s.sentence(q)
	if err != nil {
		says = display.Text(err.Error())
	}
	said := display.Wrap(says, columns)
	if s.sure {
		s.top = max(0, min(s.top, len(said)-room))
		last := min(s.top+room, len(said))
		if s.all != len(said) { // on another screen
			s.most = 0
		}
		s.below, s.most, s.all = len(said)-last, max(s.most, last), len(said)
		return plain(said[s.top:last])
	}
	var rows []line
	for at := range s.rows() {
		marker := display.Safe("  ")
		if at == s.at {
			marker = "> "
		}
		rows = append(rows, line{text: marker + s.rowText(at), strong: at == s.at})
	}
	// What is said of it goes below the rows as far as there is room for at least
	// a few of them: all of it is on the screen before it is granted.
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

// rowText is a row as it is shown.
func (s *shaping) rowText(at int) display.Safe {
	of := func(label, word, says display.Safe) display.Safe {
		return padded(label, 6, false) + padded(word, 9, false) + " " + says
	}
	switch kind, n := s.row(at); kind {
	case "match":
		return of("match", shapeMatches[s.match].word, shapeMatches[s.match].says)
	case "name":
		box := display.Safe("  [ ] ")
		if s.names[n].chosen {
			box = "  [x] "
		}
		return box + display.Name(s.names[n].text) + "  " + s.names[n].value
	case "for":
		return of("for", display.Safe(s.span)+"_", "30d at most")
	case "times":
		if s.times == "" {
			return of("times", "_", "as many as come")
		}
		return of("times", display.Safe(s.times)+"_", "further calls")
	}
	return of("in", shapeScopes[s.in].word, shapeScopes[s.in].says)
}

// plain are lines of which none stands out.
func plain(texts []display.Safe) []line {
	var lines []line
	for _, text := range texts {
		lines = append(lines, line{text: text})
	}
	return lines
}
