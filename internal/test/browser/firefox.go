package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// Firefox is a Firefox, driven by WebDriver BiDi.
type Firefox struct {
	t       *testing.T
	conn    *websocket.Conn
	last    int
	context string
	logs    []string // what its console said
}

// firefoxPrefs ends the options of a profile; the scheme stands for itself, and the rest is that it calls nobody.
const firefoxPrefs = `
user_pref("app.normandy.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("layout.css.prefers-color-scheme.content-override", %d);
`

// OpenFirefox starts a Firefox with a profile of its own, light or dark, that ends with the test.
func OpenFirefox(t *testing.T, scheme string) *Firefox {
	t.Helper()
	path, err := exec.LookPath("firefox-esr")
	if err != nil {
		t.Skip("there is no firefox-esr")
	}
	profile := tempdir.New(t, "", "firefox")
	prefs := fmt.Sprintf(firefoxPrefs, map[string]int{"dark": 0, "light": 1}[scheme])
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(prefs), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+profile, "TMPDIR="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &Firefox{t: t}
	t.Cleanup(func() {
		if f.conn != nil {
			f.conn.Close()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var address string
	lines := bufio.NewScanner(out)
	for address == "" {
		if !lines.Scan() {
			t.Fatal("firefox has ended")
		}
		_, address, _ = strings.Cut(lines.Text(), "WebDriver BiDi listening on ")
	}
	go func() {
		for lines.Scan() { // or it would wait for its pipe
		}
	}()
	if f.conn, _, err = websocket.DefaultDialer.Dial(address+"/session", nil); err != nil {
		t.Fatal(err)
	}
	f.Ask("session.new", map[string]any{"capabilities": map[string]any{}}, nil)
	f.Ask("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}}, nil)
	var made struct{ Context string }
	f.Ask("browsingContext.create", map[string]any{"type": "tab"}, &made)
	f.context = made.Context
	return f
}

// Ask makes a call of the protocol.
func (f *Firefox) Ask(method string, params map[string]any, result any) {
	f.t.Helper()
	if err := f.try(method, params, result); err != nil {
		f.t.Fatal(err)
	}
}

// try is Ask for a call that the browser may refuse.
func (f *Firefox) try(method string, params map[string]any, result any) error {
	f.t.Helper()
	f.last++
	_ = f.conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
	if err := f.conn.WriteJSON(map[string]any{"id": f.last, "method": method, "params": params}); err != nil {
		f.t.Fatal(err)
	}
	for {
		var got struct {
			ID      int
			Result  json.RawMessage
			Error   string
			Message string
			Params  struct{ Text string }
		}
		if err := f.conn.ReadJSON(&got); err != nil {
			f.t.Fatalf("%s: %v", method, err)
		}
		switch {
		case got.ID == 0:
			f.logs = append(f.logs, got.Params.Text)
		case got.ID != f.last:
		case got.Error != "":
			return fmt.Errorf("%s: %s: %s", method, got.Error, got.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(got.Result, result)
		}
	}
}

// Go opens an address.
func (f *Firefox) Go(address string) {
	f.t.Helper()
	f.Ask("browsingContext.navigate", map[string]any{"context": f.context, "url": address, "wait": "complete"}, nil)
}

// eval runs an expression on the page.
func (f *Firefox) eval(expression string) (string, error) {
	var got struct {
		Result    struct{ Value string }
		Exception struct{ Text string } `json:"exceptionDetails"`
	}
	err := f.try("script.evaluate", map[string]any{"expression": "Promise.resolve(" + expression + ").then(String)", "target": map[string]any{"context": f.context}, "awaitPromise": true}, &got)
	if err == nil && got.Exception.Text != "" {
		err = fmt.Errorf("%s", got.Exception.Text)
	}
	return got.Result.Value, err
}

// Eval runs an expression on the page and returns its value as text.
func (f *Firefox) Eval(expression string) string {
	f.t.Helper()
	got, err := f.eval(expression)
	if err != nil {
		f.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// Await waits until an expression is true. The page may go elsewhere meanwhile.
func (f *Firefox) Await(expression string) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if got, err := f.eval(awaited(expression)); err == nil && got == "true" {
			return
		}
	}
	f.t.Fatalf("not within a minute: %s; the page says %q %q", expression, f.Eval("location.href"), f.Eval("document.body.innerText"))
}

// firefoxKeys are the keys that have no character.
var firefoxKeys = map[string]string{"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004"}

// Press presses a key.
func (f *Firefox) Press(key string) {
	f.t.Helper()
	if named, ok := firefoxKeys[key]; ok {
		key = named
	}
	strokes := []map[string]string{{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}}
	f.Ask("input.performActions", map[string]any{"context": f.context, "actions": []any{map[string]any{"type": "key", "id": "keys", "actions": strokes}}}, nil)
}

// Size sets the size of the page.
func (f *Firefox) Size(width, height int) {
	f.t.Helper()
	f.Ask("browsingContext.setViewport", map[string]any{"context": f.context, "viewport": map[string]int{"width": width, "height": height}, "devicePixelRatio": 1}, nil)
}

// PNG returns a picture of what is seen of the page, or of all of it.
func (f *Firefox) PNG(all bool) []byte {
	f.t.Helper()
	var got struct{ Data string }
	f.Ask("browsingContext.captureScreenshot", map[string]any{"context": f.context, "origin": map[bool]string{true: "document", false: "viewport"}[all]}, &got)
	png, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		f.t.Fatal(err)
	}
	return png
}

// Quiet fails if the page's console said something.
func (f *Firefox) Quiet() {
	f.t.Helper()
	for _, text := range f.logs {
		f.t.Errorf("the browser says %s", text)
	}
}
