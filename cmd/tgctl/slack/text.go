package slack

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Slack's limits, in characters. It does not say what it takes for one, so texts
// are measured in UTF-16 code units, of which there are never fewer.
const (
	textMost    = 3000   // of a text object
	messageMost = 12_000 // of all blocks of a message together; past about 13,000 it is refused
	headerMost  = 150
	valueMost   = 2000 // of a button
	confirmMost = 300
	blocksMost  = 50
)

// ellipsis ends what was cut. Text from outside can't hold one: display writes it
// out by number.
const ellipsis = "…"

// units is how long Slack takes s to be, at most.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// escaped writes s so that Slack takes it for nothing but text. The three
// characters that begin and end what it obeys are written as it wants them. A
// backtick would end the code span in which all foreign text stands, and Slack
// knows no escape for it: it is written out by number, as display writes what
// can't be shown. What doesn't fit into most units is cut, and ends with an
// ellipsis.
func escaped(s display.Safe, most int) string {
	var b strings.Builder
	used, room := 0, most-units(ellipsis)
	fits := -1 // length of what fits when something must go
	for _, r := range string(s) {
		piece := string(r)
		switch r {
		case '&':
			piece = "&amp;"
		case '<':
			piece = "&lt;"
		case '>':
			piece = "&gt;"
		case '`':
			piece = `\u{60}`
		}
		if used += units(piece); used > room && fits < 0 {
			fits = b.Len()
		}
		if used > most {
			return b.String()[:fits] + ellipsis
		}
		b.WriteString(piece)
	}
	return b.String()
}

// code is s as a code span of at most most units, in which Slack formats, links and
// mentions nothing; empty when s is.
func code(s display.Safe, most int) string {
	if s == "" {
		return ""
	}
	return "`" + escaped(s, most-2) + "`"
}

// moment is a time as the reader's own clock shows it.
func moment(t time.Time) string {
	t = t.UTC()
	return "<!date^" + strconv.FormatInt(t.Unix(), 10) + "^{date_short_pretty}, {time}|" + t.Format("2006-01-02 15:04 UTC") + ">"
}

// mentions are ids of users and groups, checked by the configuration, as Slack wants
// them written.
func mentions(who []string) string {
	var words []string
	for _, id := range who {
		switch {
		case id == "here" || id == "channel" || id == "everyone":
			words = append(words, "<!"+id+">")
		case isID(id, "S"):
			words = append(words, "<!subteam^"+id+">")
		case isID(id, "UW"):
			words = append(words, "<@"+id+">")
		}
	}
	return strings.Join(words, " ")
}

// isID reports whether id is made like an id of Slack's that begins with one of
// kinds.
func isID(id, kinds string) bool {
	return len(id) >= 3 && len(id) <= 32 && strings.IndexByte(kinds, id[0]) >= 0 &&
		strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// fences lays lines out in code blocks, one for each text object of at most most
// units, and at most count of them. left is how many lines did not fit.
func fences(lines []display.Safe, most, count int) (texts []string, left int) {
	const open, end = "```\n", "```"
	var b strings.Builder
	room := most - units(open) - units(end)
	flush := func() {
		if b.Len() > 0 {
			texts = append(texts, open+b.String()+end)
			b.Reset()
		}
	}
	used := 0
	for i, line := range lines {
		text := escaped(line, room-1) + "\n"
		if used+units(text) > room {
			flush()
			used = 0
			if len(texts) == count {
				return texts, len(lines) - i
			}
		}
		used += units(text)
		b.WriteString(text)
	}
	flush()
	return texts, 0
}
