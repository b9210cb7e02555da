package ui

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// Who names who decided: the person whose daemon this is, called person, and where; or a script. The
// process is in the audit log. decider is what the kernel showed of it, surface what it claims to be.
func Who(decider, surface string, person display.Safe) display.Safe {
	_, tty, _ := strings.Cut(decider, " on /dev/")
	switch {
	case surface == "" || decider == "":
		return display.Text(decider)
	case surface == "script":
		return "script"
	case surface == "phone": // whoever reads the topic can have pressed the button
		return "phone (claim)"
	case surface == "terminal" && tty != "":
		return person + " (terminal " + display.Name(tty) + ")"
	}
	return person + " (" + display.Name(surface) + ")"
}

// You is the person who reads what tgctl prints.
const You display.Safe = "you"

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

// Age returns how long ago t was, for a column or a sentence that says so; a dash if t is nil.
func (a *App) Age(t *timestamppb.Timestamp) display.Safe {
	if t == nil {
		return "-"
	}
	return display.Span(a.Now().Sub(t.AsTime()))
}

// Ago says how long ago t was: 3 s ago.
func Ago(t, now time.Time) display.Safe { return display.Span(now.Sub(t)) + " ago" }

// Moment formats a point in time in full. It returns "" if t is nil.
func (a *App) Moment(t *timestamppb.Timestamp) display.Safe {
	if t == nil {
		return ""
	}
	return display.Moment(t.AsTime(), a.Now())
}

// When says how long ago t was, and when that is in full.
func When(t, now time.Time) display.Safe {
	return Ago(t, now) + " (" + display.Moment(t, now) + ")"
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

// LoginCommand returns the command that logs a person in to a server behind an address.
func LoginCommand(server string) display.Safe {
	return "tgctl login " + ShellWord(display.Name(server))
}

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

// maxGlobBytes limits the length of a name in a pattern, in bytes.
const maxGlobBytes = 200

// LiteralGlob returns a pattern that matches only name, in rules and in queries of the audit log. It returns "" if no
// pattern can.
func LiteralGlob(name string) string {
	if len(name) > maxGlobBytes || !utf8.ValidString(name) || strings.Contains(name, "{") {
		return ""
	}
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(name)
}
