package notify

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

// note is the content of a notification.
type note struct {
	title   display.Safe
	body    []line
	actions []string // key and label of each button; only this process and the notification daemon know the keys
	urgency byte
	stays   bool // shown until it is withdrawn; otherwise the desktop decides
}

// bodyText returns the body of n in the form that the notification daemon supports: as
// markup, with all text escaped, or as plain text.
func (d *desktop) bodyText(n *note) string {
	if !d.hasCapability("body") {
		return ""
	}
	markup := d.hasCapability("body-markup")
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

// line is one line of the body.
type line struct {
	text   display.Safe
	strong bool
}

var markupText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
