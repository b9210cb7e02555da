package dashboard

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/browser"
)

// A rule is tried in a copy of the daemon's file, which stays as it is; without a file, in the built-in default.
func TestTryARule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thoughtgate.yaml")
	f := startOn(t, func(d *consoletest.Daemon) {
		consoletest.Day(d)
		d.Set.Source = path
	})
	f.enter()
	const text = "schema: 1\n# \u202e <script>alert(1)</script>\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct{ Text string }
	if f.get("/api/config", &got); got.Text != text {
		t.Errorf("the copy is %q", got.Text)
	}
	if code, answer := f.post("/api/backtest", map[string]string{"text": text + "governance: {}\n", "since": "2h"}); code != http.StatusOK || string(f.daemon.Back.GetText()) != text+"governance: {}\n" || !strings.Contains(answer, "412 calls") {
		t.Errorf("%d %s, the daemon got %v", code, answer, f.daemon.Back)
	}
	if code, answer := f.post("/api/backtest", map[string]string{"text": strings.Repeat("x", maxBody)}); code == http.StatusOK {
		t.Errorf("without a bound: %s", answer)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != text {
		t.Errorf("the file is %q, %v", after, err)
	}
	for name, content := range map[string][]byte{"too long": make([]byte, maxConfig+1), "no text": {0xff, 0xfe}, "missing": nil} {
		other := filepath.Join(t.TempDir(), "other.yaml")
		f.edit(func(d *consoletest.Daemon) { d.Set.Source = other })
		if content != nil {
			if err := os.WriteFile(other, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, answer := f.send("GET", "/api/config", "", f.papers()...); code == http.StatusOK {
			t.Errorf("%s: %.60s", name, answer)
		}
	}
	f.edit(func(d *consoletest.Daemon) { d.Set.Source = "" })
	if f.get("/api/config", &got); !strings.Contains(got.Text, "when: destroys") {
		t.Errorf("the built-in default is %q", got.Text)
	}
}

// What is typed on the page is judged, and shown as text.
func TestTryARuleInChromium(t *testing.T) {
	f := startOn(t, func(d *consoletest.Daemon) {
		noon(d)
		d.Set.Source = ""
	})
	b := browser.Open(t)
	f.letIn(b)
	f.open(b, "policy", "")
	b.Eval("[...document.querySelectorAll('#view-policy button')].find((b) => b.textContent === 'Try a rule').click()")
	b.Await("document.querySelector('textarea[name=text]').value.includes('when: destroys')")
	b.Eval("document.querySelector('textarea[name=text]').value = '<img src=x onerror=alert(1)>'")
	b.Eval("document.querySelector('#view-policy form').requestSubmit()")
	b.Await("document.getElementById('view-policy').textContent.includes('412 calls')")
	if got := string(f.daemon.Back.GetText()); got != "<img src=x onerror=alert(1)>" {
		t.Errorf("the daemon got %q", got)
	}
	if got := b.Eval("document.querySelectorAll('img').length"); got != "0" {
		t.Errorf("%s pictures were made of text", got)
	}
	b.Quiet()
}
