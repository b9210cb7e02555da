package inbox

import (
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// queueKeys is what `?` shows and --help prints.
const queueKeys = `  up, down       select a question
  enter, tab     go to it: arrows and space scroll, esc goes back
  a, then y      approve it, once all that must be read was on the screen
  d, then enter  deny it, with a reason if you type one
  g              approve it and grant further calls: set the bounds of the
                 grant with the arrow keys, then enter, then y
  e              change its arguments in $VISUAL or $EDITOR; a and y approve
                 your version
  space          mark it; A approves, D denies what is marked
  S              deny all of its server
  /              list only what has a text; esc lists all
  B              ring the bell for new questions, or stop it
  ?              show the keys
  q              quit`

// helpScreen draws the keys.
func (q *queue) helpScreen() []line {
	var lines []line
	for text := range strings.SplitSeq(queueKeys, "\n") {
		for _, part := range ui.Hanging(display.Safe(text), q.width, 4) {
			lines = append(lines, line{text: part})
		}
	}
	room := q.height - 2
	q.helpTop = max(0, min(q.helpTop, len(lines)-room))
	below := len(lines) - q.helpTop - room
	lines = filled(append([]line{{text: "Keys", strong: true}}, lines[q.helpTop:min(q.helpTop+room, len(lines))]...), q.height-1)
	return append(lines, line{text: ui.Choose(below > 0, "down "+ui.Plural(max(below, 0), "more line", "more lines")+"   ", "") + "any other key goes back", tone: display.Faint})
}

// pressHelp scrolls the keys, or leaves them.
func (q *queue) pressHelp(key string) {
	if n := linesDown(key, max(1, q.height-3), 100); n != 0 {
		q.helpTop = max(0, q.helpTop+n)
		return
	}
	q.help = false
}
