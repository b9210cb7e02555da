package main

import (
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Urgencies of a notification.
const (
	urgencyLow      byte = 0
	urgencyNormal   byte = 1
	urgencyCritical byte = 2
)

// note is a notification as it is to be shown.
type note struct {
	title   display.Safe
	body    []line
	actions []string // of each button its key, which nobody but us and the notification daemon knows, and its label
	urgency byte
	stays   bool // until it is withdrawn; else as long as the desktop likes
}

// bodyText is the body of n as the notification daemon wants it: as markup, if
// it says that it reads markup, and then with nothing in it that n did not mean
// as such.
func (d *desktop) bodyText(n *note) string {
	if !d.able("body") {
		return ""
	}
	markup := d.able("body-markup")
	var lines []string
	for _, line := range n.body {
		text := string(line.text)
		if markup {
			text = markupText.Replace(text)
			if line.strong {
				text = "<b>" + text + "</b>"
			}
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

var markupText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
