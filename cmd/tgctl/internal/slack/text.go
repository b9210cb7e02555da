package slack

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Slack's limits in characters. Slack does not define a character, so texts are measured in
// UTF-16 code units, the largest possible count.
const (
	textMost    = 3000   // of a text object
	messageMost = 12_000 // of all blocks of a message together; Slack refuses more than about 13,000
	headerMost  = 150
	valueMost   = 2000 // of a button
	confirmMost = 300
	blocksMost  = 50
)

// ellipsis ends text that was cut. Text from outside cannot contain one: package display
// escapes it.
const ellipsis = "…"

// units returns the length of s in UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// escaped returns s so that Slack shows it as plain text. Slack's three control characters are
// written as entities. A backtick would end the code span around foreign text, and Slack has no
// escape for it, so it is written as \u{60}, like display writes unprintable characters. Text
// longer than most units is cut and ends with an ellipsis.
func escaped(s display.Safe, most int) string {
	var b strings.Builder
	used, room := 0, most-units(ellipsis)
	fits := -1 // length of the text to keep if s is too long
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

// code returns s as a code span of at most most units, in which Slack does not format, link or
// mention anything. It returns "" if s is empty.
func code(s display.Safe, most int) string {
	if s == "" {
		return ""
	}
	return "`" + escaped(s, most-2) + "`"
}

// moment returns markup that shows t in the reader's time zone.
func moment(t time.Time) string {
	t = t.UTC()
	return "<!date^" + strconv.FormatInt(t.Unix(), 10) + "^{date_short_pretty}, {time}|" + t.Format("2006-01-02 15:04 UTC") + ">"
}

// mentions returns the markup that mentions users and groups. The configuration has checked
// their ids.
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

// isID reports whether id has the form of a Slack id that begins with one of the letters in
// kinds.
func isID(id, kinds string) bool {
	return len(id) >= 3 && len(id) <= 32 && strings.IndexByte(kinds, id[0]) >= 0 &&
		strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// fences puts lines into at most count code blocks of at most most units each. left is the
// number of lines that did not fit.
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
