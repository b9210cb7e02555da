package inbox

import (
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
)

// The pictures in docs/pictures are what the queue draws now; `make pictures` draws them again.
func TestPictures(t *testing.T) {
	for _, test := range []struct {
		name          string
		width, height int
		keys          string
	}{{"queue", 120, 32, "down space"}, {"question", 80, 24, "down enter"}} {
		s := newScreen(test.width, test.height, consoletest.DayQuestions()...)
		s.keys(test.keys)
		if strings.Contains(test.keys, "space") {
			s.keys("up")
		}
		if s.detail != nil {
			s.say(queueMsg(func(q *queue) action { return q.setHistory(q.detail, picturedPast()) }))
		}
		mustFitScreen(t, s)
		env := map[string]string{"TERM": "xterm"}
		s.app.Getenv = func(name string) string { return env[name] }
		screen := (&watchModel{queue: s.queue}).View().Content
		golden.Compare(t, filepath.Join("..", "..", "..", "..", "docs", "pictures", test.name+".svg"), svg("tgctl queue", test.width, screen))
	}
}

func picturedPast() *past {
	return &past{
		approved: &pastCall{seq: 41, at: consoletest.Noon.Add(-20 * time.Minute), question: "A-4", launch: strings.Repeat("ab", 32), kept: true,
			args: []byte(`{"command":"rm -rf build","cwd":"/home/ana/shop"}`)},
		calls: []pastCall{
			{at: consoletest.Noon.Add(-80 * time.Second), verdict: "forward", what: "agent shell", short: `{"command": "git status"}`},
			{at: consoletest.Noon.Add(-60 * time.Second), verdict: "deny", what: "files delete_file", short: `{"path": "/home/ana/shop/notes"}`},
		},
	}
}

// sgr matches what colours a text.
var sgr = regexp.MustCompile(`\x1b\[([\d;]*)m`)

// svg draws a screen of a terminal, light or dark as the reader's.
func svg(title string, columns int, screen string) string {
	const wide, tall, left, top = 8.4, 19, 16, 58
	lines := strings.Split(screen, "\n")
	width, height := int(float64(columns)*wide)+2*left, top+tall*len(lines)
	classes := map[string]string{"": "", "1": "b", "2": "f", "31": "r", "32": "g", "33": "y", "35": "m"}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#1d2330;white-space:pre}
rect{fill:#fbfbfd;stroke:#c3c9d4}.b{font-weight:700}.f{fill:#6b7484}.r{fill:#b3261e}.g{fill:#1a7f37}.y{fill:#945700}.m{fill:#8e24aa}
@media (prefers-color-scheme:dark){text{fill:#d7dce4}rect{fill:#12161d;stroke:#4a5361}.f{fill:#8b95a5}.r{fill:#ff7b72}.g{fill:#56d364}.y{fill:#e3b341}.m{fill:#d2a8ff}}</style>
<rect x=".5" y=".5" width="%d" height="%d" rx="9"/>
<text x="%d" y="22" text-anchor="middle" class="f" font-size="12">%s</text>
`, width, height, width, height, title, width-1, height-1, width/2, title)
	for row, line := range lines {
		at, class := 0, ""
		put := func(text string) {
			blank := len(text) - len(strings.TrimLeft(text, " "))
			cells := display.Width(display.Safe(text))
			if shown := strings.Trim(text, " "); shown != "" {
				attribute := ""
				if class != "" {
					attribute = ` class="` + class + `"`
				}
				fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\"%s>%s</text>\n", left+float64(at+blank)*wide, top+row*tall,
					float64(display.Width(display.Safe(shown)))*wide, attribute, html.EscapeString(shown))
			}
			at += cells
		}
		from := 0
		for _, m := range sgr.FindAllStringSubmatchIndex(line, -1) {
			put(line[from:m[0]])
			class, from = classes[line[m[2]:m[3]]], m[1]
		}
		put(line[from:])
	}
	return b.String() + "</svg>\n"
}
