package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// AgentLine names an agent and its session.
func AgentLine(agent, session string) display.Safe {
	return Join(NonEmpty(display.Name(agent), Choose(session != "", "session "+display.Name(session), "")), ", ")
}

// Claimed names the approver as reported by a surface that several people use.
func Claimed(approver, surface string) display.Safe {
	return Choose(approver != "", display.Name(approver)+", as reported by "+display.Name(surface), "")
}

// Spaced puts a space before s, unless s is empty.
func Spaced(s display.Safe) display.Safe { return Choose(s != "", " "+s, "") }

// Parens puts s into parentheses, unless s is empty.
func Parens(s display.Safe) display.Safe { return Choose(s != "", "("+s+")", "") }

// ShortTime formats t in eight columns or less: a time if t is today, otherwise a date.
func ShortTime(t, now time.Time) display.Safe {
	if s := display.Time(t, now); len(s) <= 8 {
		return s
	}
	return display.Safe(t.In(now.Location()).Format("06-01-02"))
}

// Unique sorts all and removes duplicates.
func Unique(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// Word quotes text as one word for a shell, and makes characters visible that a terminal
// would act on.
func Word(text string) string { return string(ShellWord(display.Name(text))) }

// AfterColon puts a colon and a space before why, unless why is empty.
func AfterColon(why display.Safe) display.Safe { return Choose(why != "", ": "+why, "") }

// Ago returns how long ago t was, or a dash if t is nil.
func (a *App) Ago(t *timestamppb.Timestamp) display.Safe {
	if t == nil {
		return "-"
	}
	return display.Span(a.Now().Sub(t.AsTime()))
}

// Moment formats a point in time in full. It returns "" if t is nil.
func (a *App) Moment(t *timestamppb.Timestamp) display.Safe {
	if t == nil {
		return ""
	}
	return display.Moment(t.AsTime(), a.Now())
}

// InSeconds formats a short wait. It rounds up, so it never says 0 s.
func InSeconds(d time.Duration) display.Safe {
	return display.Count(max(int64((d+time.Second-1)/time.Second), 1)) + " s"
}

// CommandLine formats a command so that its arguments can be told apart.
func CommandLine(command []string) display.Safe {
	return Join(Map(command, func(word string) display.Safe {
		shown := display.Text(word)
		if shown == "" || strings.ContainsAny(string(shown), " '\"") {
			return quoted(shown)
		}
		return shown
	}), " ")
}

// PIDOrDash formats a pid, or a dash for 0.
func PIDOrDash(pid int32) display.Safe {
	if pid == 0 {
		return "-"
	}
	return display.Safe(strconv.Itoa(int(pid)))
}

// ShortDigest returns the first 8 digits of a digest; commands accept them.
func ShortDigest(hex string) display.Safe { return display.Name(hex[:min(len(hex), 8)]) }

// ShellWord quotes s if a shell would not read it as one plain word. A name with escaped
// characters cannot be typed, but it can be completed.
func ShellWord(s display.Safe) display.Safe {
	if strings.ContainsFunc(string(s), func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:@%+,", r))
	}) {
		return quoted(s)
	}
	return s
}

// quoted puts s into single quotes for a shell.
func quoted(s display.Safe) display.Safe {
	return "'" + display.Safe(strings.ReplaceAll(string(s), "'", `'\''`)) + "'"
}

// OneLine replaces the line breaks in text by spaces.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}
