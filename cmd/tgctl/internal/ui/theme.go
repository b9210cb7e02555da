package ui

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Background is what is known of a terminal's background.
type Background int

// The backgrounds. Of an unknown one, only colours are used that the terminal's own theme chooses.
const (
	Unknown Background = iota
	Dark
	Light
)

// Theme has the colours of everything that tgctl prints. They follow what a text says and never stand
// for it. The zero Theme has none.
type Theme [display.Faint + 1]ansi.Style

// Colours among the 16 that a theme of a terminal defines, and darker ones of 256 for a light
// background, on which yellow can hardly be read.
var (
	basicColors = map[display.Tone]ansi.Color{display.OK: ansi.Green, display.Warn: ansi.Yellow, display.Deny: ansi.Red, display.Held: ansi.Magenta}
	lightColors = map[display.Tone]ansi.Color{
		display.OK: ansi.IndexedColor(28), display.Warn: ansi.IndexedColor(130), display.Deny: ansi.IndexedColor(124), display.Held: ansi.IndexedColor(127),
	}
)

// NewTheme returns the theme for a terminal with a background and the environment that getenv reads.
// TERM=dumb and no TERM mean neither colours nor bold, NO_COLOR means no colours.
func NewTheme(getenv func(string) string, behind Background) Theme {
	var t Theme
	term := getenv("TERM")
	if term == "" || term == "dumb" {
		return t
	}
	t[display.Strong], t[display.Faint] = ansi.NewStyle().Bold(), ansi.NewStyle().Faint()
	if getenv("NO_COLOR") != "" {
		return t
	}
	colors := basicColors
	if behind == Light && (strings.Contains(term, "256color") || getenv("COLORTERM") != "") {
		colors = lightColors
	}
	for tone, color := range colors {
		t[tone] = ansi.NewStyle().ForegroundColor(color)
	}
	return t
}

// Paint is a [display.Paint].
func (t *Theme) Paint(tone display.Tone, text string) string {
	if len(t[tone]) == 0 || text == "" {
		return text
	}
	return t[tone].Styled(text)
}

// paint returns the [display.Paint] of a stream; nil if it has no colours.
func (a *App) paint(terminal bool) display.Paint {
	if !terminal {
		return nil
	}
	t := NewTheme(a.Getenv, BackgroundOf(a.Getenv))
	return t.Paint
}

// Paint returns what colours texts on standard output; nil if that is not a terminal.
func (a *App) Paint() display.Paint { return a.paint(a.OutTerminal) }

// ErrPaint is Paint for standard error.
func (a *App) ErrPaint() display.Paint { return a.paint(a.ErrTerminal) }

// BackgroundOf returns the background that the variable COLORFGBG tells, which some terminals set.
// It does not ask the terminal: what a person has typed ahead would be lost.
func BackgroundOf(getenv func(string) string) Background {
	colors := getenv("COLORFGBG")
	n, err := strconv.Atoi(colors[strings.LastIndexByte(colors, ';')+1:])
	switch {
	case err != nil || n < 0 || n > 15:
		return Unknown
	case n == 7 || n > 8: // as vim and others read it
		return Light
	}
	return Dark
}

// ToneOf returns the tone of a word for a state or a verdict. Words that it does not know are plain.
func ToneOf(word display.Safe) display.Tone {
	first, _, _ := strings.Cut(string(word), " ")
	return wordTones[first]
}

var wordTones = map[string]display.Tone{
	"ok": display.OK, "running": display.OK, "forward": display.OK, "forwarded": display.OK, "granted": display.OK, "approve": display.OK, "approved": display.OK, "known": display.OK,
	"accepted": display.OK, "valid": display.OK, "yes": display.OK, "ready": display.OK,
	"warn": display.Warn, "warning": display.Warn, "starting": display.Warn, "restarting": display.Warn, "degraded": display.Warn, "stopping": display.Warn, "new": display.Warn,
	"shown": display.Warn, "expired": display.Warn, "withdrawn": display.Warn, "cancelled": display.Warn, "parked": display.Warn, "park": display.Warn,
	"lost": display.Warn, "tool_error": display.Warn, "changed": display.Warn,
	"fail": display.Deny, "failed": display.Deny, "error": display.Deny, "deny": display.Deny, "denied": display.Deny, "rejected": display.Deny,
	"revoked": display.Deny, "no": display.Deny, "missing": display.Deny, "withheld": display.Deny,
	"ask": display.Held, "hold": display.Held, "held": display.Held, "waiting": display.Held,
	"-": display.Faint, "ended": display.Faint, "stopped": display.Faint,
}
