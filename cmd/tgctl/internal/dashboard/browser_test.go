package dashboard

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/browser"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// visitor is a browser.
type visitor interface {
	Go(address string)
	Eval(expression string) string
	Await(expression string)
	Press(key string)
}

// letIn opens the page in b as a person's browser does, by the local file.
func (f *fixture) letIn(b visitor) {
	f.t.Helper()
	letter, err := f.s.writeLetter()
	if err != nil {
		f.t.Fatal(err)
	}
	defer os.Remove(letter)
	if is, err := os.Stat(letter); err != nil || is.Mode().Perm() != 0o600 {
		f.t.Errorf("the file is %v, %v", is.Mode(), err)
	}
	b.Go("file://" + letter)
	b.Await("location.pathname === '/' && !document.getElementById('main')?.hidden && document.querySelectorAll('#questions li').length > 0")
}

// A person opens the page, reads, approves and denies with keys. Text from agents stays text, and no secret is in an
// address or the history.
func TestInChromium(t *testing.T) {
	f := start(t, func(d *consoletest.Daemon) {
		d.Approvals[1].Server = "<img src=x onerror=alert(1)><script>alert(2)</script>"
	})
	b := browser.Open(t)
	f.letIn(b)
	if got := b.Eval("location.href"); got != f.base+"/" {
		t.Errorf("the address is %q", got)
	}
	var history struct {
		Entries []struct{ URL string } `json:"entries"`
	}
	b.Ask("Page.getNavigationHistory", map[string]any{}, &history)
	for _, e := range history.Entries {
		if strings.Contains(e.URL, f.s.door.pass) || strings.ContainsAny(e.URL, "?#") {
			t.Errorf("the history has %q", e.URL)
		}
	}
	if b.Eval("document.cookie") != "" {
		t.Error("the page's script can read the cookie")
	}
	if got := b.Eval("document.querySelectorAll('img, main script, iframe').length"); got != "0" {
		t.Errorf("%s elements were made of text", got)
	}

	b.Look(1280, 900, "light")
	b.Press("j")
	b.Await("document.querySelector('#detail h2')?.textContent === 'A-2'")
	b.Press("j")
	b.Await("document.querySelector('#detail h2')?.textContent === 'A-3'")
	b.Await("!document.getElementById('approve').disabled")
	if !strings.Contains(b.Eval("document.getElementById('params').textContent"), `\u{202e}`) {
		t.Error("a character that reorders text is not shown")
	}
	b.Press("a")
	b.Press("Enter")
	b.Await("document.getElementById('alert').textContent.includes('A-3 approved')")
	b.Eval("document.getElementById('q-A-2').click()")
	b.Await("document.querySelector('#detail h2')?.textContent === 'A-2'")
	b.Press("d")
	b.Press("n")
	b.Press("o")
	b.Press("Enter")
	b.Await("document.getElementById('alert').textContent.includes('A-2 denied')")
	got := f.decisions()
	if len(got) != 2 || got[0].GetId() != "A-3" || got[0].GetAnswer() != pb.Answer_ANSWER_APPROVE || got[0].GetSurface() != surface || got[1].GetAnswer() != pb.Answer_ANSWER_DENY || got[1].GetNote() != "no" {
		t.Errorf("the daemon got %v", got)
	}
	b.Quiet()

	b.Reload()
	b.Await("document.querySelectorAll('#questions li').length === 1")
	b.Quiet()

	// Whoever listens at the address after tgctl is asked nothing, and nothing can be typed for them.
	f.knock(f.s.door.pass)
	b.Await("document.getElementById('state').textContent === 'ended' && !document.querySelector('main input, main button')")
	<-f.ended
	f.ended <- nil
}

// A long call is approved only after its end was on the screen, and one that needs it with what is typed for it.
func TestReadBeforeApproval(t *testing.T) {
	f := start(t, func(d *consoletest.Daemon) {
		d.Approvals[1].Arguments = []byte(`{"name":"write_file","arguments":{"content":"` + strings.Repeat(`line\n`, 400) + `"}}`)
		d.Approvals[1].Level = "presence"
		d.Presence = &pb.PresenceState{Enrolled: true}
	})
	b := browser.Open(t)
	b.Look(1280, 900, "dark")
	f.letIn(b)
	b.Eval("document.getElementById('q-A-3').click()")
	b.Await("document.querySelector('#detail h2')?.textContent === 'A-3'")
	b.Eval("new Promise((done) => setTimeout(done, 1000))")
	if b.Eval("document.getElementById('approve').disabled") != "true" {
		t.Error("Approve can be pressed before the end of the arguments was shown")
	}
	b.Eval("document.getElementById('params').scrollTo(0, 1e6)")
	b.Eval("document.getElementById('detail').scrollTo(0, 1e6)")
	b.Await("!document.getElementById('approve').disabled")
	b.Press("a")
	for _, c := range "correct horse" {
		b.Press(string(c))
	}
	b.Press("Enter")
	b.Await("document.getElementById('alert').textContent.includes('A-3 approved')")
	if got := f.decisions(); len(got) != 1 || string(got[0].GetProof().GetPassphrase()) == "" {
		t.Errorf("the daemon got %v", got)
	}
	b.Await("!document.querySelector('input[type=password]')")
	if strings.Contains(b.Eval("JSON.stringify(sessionStorage)+JSON.stringify(localStorage)"), "correct") {
		t.Error("what was typed is still there")
	}
	b.Quiet()
}

// Another browser gets nothing, with the address or with the key of the first.
func TestSecondBrowser(t *testing.T) {
	f := start(t)
	f.enter()
	b := browser.Open(t)
	b.Go(f.base + "/")
	b.Await("document.getElementById('enter')?.hidden === false")
	b.Eval("sessionStorage.setItem('key', " + fmt.Sprintf("%q", f.key) + ")")
	b.Reload()
	b.Await("document.getElementById('enter')?.hidden === false && document.getElementById('main').hidden")
	if got := b.Eval("document.querySelectorAll('#questions li').length"); got != "0" {
		t.Errorf("%s questions are shown", got)
	}
}

// With thousands of calls the page keeps as many rows as it shows, and stays awake.
func TestManyCallsInChromium(t *testing.T) {
	f := start(t)
	b := browser.Open(t)
	b.Look(1280, 900, "light")
	f.letIn(b)
	b.Press("2")
	var n atomic.Uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond) // a hundred times ten a second
		defer tick.Stop()
		for range 500 {
			for range 10 {
				f.s.feed.add(manyCalls(n.Add(1)))
			}
			<-tick.C
		}
	}()
	<-done
	b.Await("document.querySelector('#calls tbody tr')?.textContent.includes('call-5000')")
	if got := b.Eval("document.querySelectorAll('#calls tbody tr').length"); got != fmt.Sprint(keptCalls) {
		t.Errorf("%s rows", got)
	}
	b.Quiet()
}

// fits fails if a view is wider than the screen.
func (f *fixture) fits(b visitor, look string) {
	f.t.Helper()
	for _, view := range pageViews {
		f.open(b, view, "A-2")
		if wide := b.Eval("document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide != "0" {
			f.t.Errorf("%s at %s: %s pixels too wide", view, look, wide)
		}
	}
}

// No view is wider than the screen, light or dark.
func TestEveryWidth(t *testing.T) {
	f := start(t, sampleGrants)
	b := browser.Open(t)
	f.letIn(b)
	for _, width := range []int{390, 768, 1280, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			b.Look(width, 900, scheme)
			f.fits(b, fmt.Sprint(width, " ", scheme))
		}
	}
	b.Quiet()
}

// The page is the same in Firefox: the way in, by a secret that comes once, the stream, the views at each width, and an answer by keys.
func TestInFirefox(t *testing.T) {
	f := start(t, sampleGrants)
	b := browser.OpenFirefox(t, "dark")
	f.letIn(b)
	if f.s.door.shut {
		t.Error("it brought the secret twice")
	}
	for _, width := range []int{390, 768, 1280, 1600} {
		b.Size(width, 900)
		f.fits(b, fmt.Sprint(width))
	}
	f.open(b, "waiting", "A-2")
	b.Press("d")
	b.Press("n")
	b.Press("Enter")
	b.Await("document.getElementById('alert').textContent.includes('A-2 denied')")
	if got := f.decisions(); len(got) != 1 || got[0].GetAnswer() != pb.Answer_ANSWER_DENY || got[0].GetNote() != "n" {
		t.Errorf("the daemon got %v", got)
	}
	b.Quiet()
}

// Who hears the page finds a heading for each view and a name on all that can be used, hears which question a key
// selects, and is not told again what has not changed.
func TestHeard(t *testing.T) {
	f := startOn(t, noon)
	b := browser.Open(t)
	b.Look(1280, 900, "light")
	f.letIn(b)
	b.Eval("window.told = 0, new MutationObserver((all) => { told += all.length }).observe(document.getElementById('state'), {childList: true, characterData: true, subtree: true})")
	type value struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name value
		}
	}
	for i, view := range pageViews {
		f.open(b, view, "A-8")
		if view == "calls" {
			b.Eval("document.querySelector('#calls tbody tr').click()")
			b.Await("document.getElementById('dialog').open")
		}
		b.Ask("Accessibility.getFullAXTree", nil, &tree)
		headed := view == "calls" // the dialog hides the rest
		for _, n := range tree.Nodes {
			switch name, _ := n.Name.Value.(string); n.Role.Value {
			case "heading":
				headed = headed || strings.EqualFold(name, view)
			case "button", "textbox", "searchbox", "listbox", "dialog", "image", "columnheader", "navigation":
				if name == "" && !n.Ignored {
					t.Errorf("%s has a %s without a name", view, n.Role.Value)
				}
			}
		}
		if !headed {
			t.Errorf("view %d, %s, has no heading", i+1, view)
		}
		b.Eval("document.getElementById('dialog').close()")
	}
	f.open(b, "waiting", "A-7")
	b.Press("j")
	b.Await("document.activeElement.id === 'questions' && document.activeElement.getAttribute('aria-activedescendant') === 'q-A-8'")
	f.s.feed.add(manyCalls(1))
	b.Await("document.querySelector('#calls tbody tr')?.textContent.includes('call-1')")
	if got := b.Eval("told"); got != "0" {
		t.Errorf("its state was told %s more times", got)
	}
	b.Quiet()
}
