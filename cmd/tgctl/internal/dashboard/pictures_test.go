package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/browser"
	"github.com/thoughtgate/thoughtgated/internal/test/pictures"
)

// pageViews are those of the page, in the order of their keys.
var pageViews = []string{"waiting", "calls", "counts", "search", "servers", "sessions", "grants", "policy"}

// noon fills a daemon for these pictures: nothing happens after noon.
func noon(d *consoletest.Daemon) {
	consoletest.Day(d)
	d.Later = nil
}

// shown returns all that the pictures of the page depend on: its files, and what it is given at noon of an ordinary day.
func shown(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, file := range [][]byte{pageHTML, pageJS, pageCSS, enterJS, iconSVG} {
		all.Write(file)
	}
	f := startOn(t, noon)
	f.enter()
	all.Write(f.firstUpdate(`"online":true`, `"id":"A-9"`, `"first":124`, `"counts":`))
	for _, path := range []string{"servers", "sessions", "grants", "policy", "question?id=A-8", "search"} {
		code, _, text := f.send("GET", "/api/"+path, "", f.papers()...)
		fmt.Fprintf(&all, "%s %d %s\n", path, code, text)
	}
	return all.String()
}

// What the page shows. `make pictures` makes these pictures.
func TestPictures(t *testing.T) {
	book := pictures.Open(t, "dashboard")
	const zone = "Etc/GMT-1" // of the fixed day
	source := zone + shown(t)
	var f *fixture
	take := func(name, view string, width int, scheme string) {
		book.Page(name, source+view+scheme+fmt.Sprint(width), func(b *browser.Browser) []byte {
			if f == nil {
				f = startOn(t, noon)
				b.Ask("Emulation.setTimezoneOverride", map[string]any{"timezoneId": zone}, nil)
				f.letIn(b)
			}
			b.Look(width, 900, scheme)
			f.open(b, view, "A-8")
			return b.PNG("html")
		})
	}
	for i, view := range pageViews {
		take("dashboard-"+view+"-1280", view, 1280, []string{"light", "dark"}[i%2])
		take("dashboard-"+view+"-390", view, 390, []string{"dark", "light"}[i%2])
	}
	take("dashboard-waiting-768", "waiting", 768, "light")
	take("dashboard-counts-1600", "counts", 1600, "light")
	take("../dashboard", "waiting", 1280, "light")
}

// open shows a view by its key: of the questions one, and of the record a search.
func (f *fixture) open(b visitor, view, id string) {
	b.Eval("document.activeElement.blur(), scrollTo(0, 0)")
	b.Press(fmt.Sprint(slices.Index(pageViews, view) + 1))
	b.Await("document.getElementById('view-" + view + "').hidden === false && document.getElementById('view-" + view + "').childElementCount > 0")
	switch view {
	case "waiting":
		b.Eval("document.getElementById('detail').replaceChildren()")
		b.Eval("document.getElementById('q-" + id + "').click()")
		b.Await("document.querySelector('#detail h2')?.textContent === '" + id + "'")
		// The page may draw the question once more, if it has selected it by itself as well.
		b.Await("(params.scrollTo(0, 1e6), params.scrollIntoView({block: 'end'}), !document.getElementById('approve').disabled)")
		b.Eval("params.scrollTo(0, 0), scrollTo(0, 0)")
	case "search":
		b.Eval("document.querySelector('#search button').click()")
		b.Await("document.querySelector('#found table')")
	}
}
