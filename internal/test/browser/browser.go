// Package browser has browsers for tests: a Chromium, driven by the DevTools protocol over a pipe, and a Firefox.
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// Browser is a Chromium, driven by the DevTools protocol over a pipe.
type Browser struct {
	t       *testing.T
	to      *os.File
	replies chan message
	logs    chan message // what its console and its policy said
	last    int
	session string
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Open starts a Chromium with a profile of its own that ends with the test.
func Open(t *testing.T) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium")
	}
	toRead, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile := tempdir.New(t, "", "chromium")
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--force-color-profile=srgb", "--lang=en-US", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "TMPDIR="+profile)
	cmd.ExtraFiles = []*os.File{toRead, fromWrite} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toRead.Close()
	fromWrite.Close()
	b := &Browser{t: t, to: to, replies: make(chan message, 64), logs: make(chan message, 256)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(from)
	}()
	t.Cleanup(func() {
		to.Close() // it ends then
		from.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-done
	})
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.Ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.Ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.Ask(domain+".enable", map[string]any{}, nil)
	}
	return b
}

// read passes messages on until the browser ends.
func (b *Browser) read(from *os.File) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			close(b.replies)
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue
		}
		switch {
		case m.ID != 0:
			b.replies <- m
		case m.Method == "Log.entryAdded" || m.Method == "Runtime.exceptionThrown" || m.Method == "Runtime.consoleAPICalled" || m.Method == "Page.javascriptDialogOpening":
			select {
			case b.logs <- m:
			default:
			}
		}
	}
}

// Ask makes a call of the protocol.
func (b *Browser) Ask(method string, params map[string]any, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatal(err)
	}
}

// try is Ask for a call that the browser may refuse.
func (b *Browser) try(method string, params map[string]any, result any) error {
	b.t.Helper()
	b.last++
	m := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	late := time.After(2 * time.Minute)
	for {
		select {
		case got, ok := <-b.replies:
			switch {
			case !ok:
				b.t.Fatalf("%s: the browser has ended", method)
			case got.ID != b.last:
				continue
			case got.Error != nil:
				return fmt.Errorf("%s: %s", method, got.Error)
			case result == nil:
				return nil
			}
			return json.Unmarshal(got.Result, result)
		case <-late:
			b.t.Fatalf("%s: no reply", method)
		}
	}
}

// Go opens an address.
func (b *Browser) Go(address string) {
	b.t.Helper()
	b.Ask("Page.navigate", map[string]any{"url": address}, nil)
}

// Reload loads the page again, and returns when the one before has gone: until then it would answer.
func (b *Browser) Reload() {
	b.t.Helper()
	b.Eval("window.isOld = true")
	b.Ask("Page.reload", map[string]any{}, nil)
	b.Await("!window.isOld && document.readyState === 'complete'")
}

// awaited returns the promise of an expression, a moment later. It is false where the expression fails, as it may on a
// page that is not there yet.
func awaited(expression string) string {
	return "new Promise((done) => setTimeout(() => { try { done(Boolean(" + expression + ")) } catch { done(false) } }, 20))"
}

// evaluated is what an expression gave.
type evaluated struct {
	Result struct {
		Value any `json:"value"`
	} `json:"result"`
	Exception any `json:"exceptionDetails"`
}

// Eval runs an expression on the page and returns its value as text.
func (b *Browser) Eval(expression string) string {
	b.t.Helper()
	var got evaluated
	if err := b.try("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got); err != nil || got.Exception != nil {
		b.t.Fatalf("%s: %v %v", expression, err, got.Exception)
	}
	return fmt.Sprint(got.Result.Value)
}

// Await waits until an expression is true. The page may go elsewhere meanwhile.
func (b *Browser) Await(expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		var got evaluated
		params := map[string]any{"expression": awaited(expression), "returnByValue": true, "awaitPromise": true}
		if err := b.try("Runtime.evaluate", params, &got); err == nil && got.Result.Value == true {
			return
		}
	}
	b.t.Fatalf("not within a minute: %s; the page says %q %q", expression, b.Eval("location.href"), b.Eval("document.body.innerText"))
}

// Press presses a key.
func (b *Browser) Press(key string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	switch {
	case len(key) == 1:
		down["text"] = key
	case key == "Enter":
		down["text"], down["windowsVirtualKeyCode"] = "\r", 13
	case key == "Escape":
		down["windowsVirtualKeyCode"] = 27
	}
	b.Ask("Input.dispatchKeyEvent", down, nil)
	b.Ask("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// Look sets the size and the scheme of the page: light or dark, or print for how it is printed.
func (b *Browser) Look(width, height int, scheme string) {
	b.t.Helper()
	b.Ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	media := map[string]any{"media": "", "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}
	if scheme == "print" {
		media = map[string]any{"media": "print"}
	}
	b.Ask("Emulation.setEmulatedMedia", media, nil)
}

// PNG returns a picture of an element of the page, also of what is not seen of it.
func (b *Browser) PNG(selector string) []byte {
	b.t.Helper()
	var clip map[string]float64
	where := b.Eval(fmt.Sprintf("(r => JSON.stringify({x: r.x + scrollX, y: r.y + scrollY, width: Math.ceil(r.width), height: Math.ceil(r.height), scale: 1}))(document.querySelector(%q).getBoundingClientRect())", selector))
	if err := json.Unmarshal([]byte(where), &clip); err != nil {
		b.t.Fatal(err)
	}
	var got struct {
		Data []byte `json:"data"`
	}
	b.Ask("Page.captureScreenshot", map[string]any{"format": "png", "clip": clip, "captureBeyondViewport": true}, &got)
	return got.Data
}

// Quiet fails if the page's console or its policy said something, or a dialog opened.
func (b *Browser) Quiet() {
	b.t.Helper()
	for {
		select {
		case m := <-b.logs:
			b.t.Errorf("the browser says %s %s", m.Method, m.Params)
		default:
			return
		}
	}
}

// Show replaces the page by another.
func (b *Browser) Show(page string) {
	b.t.Helper()
	var tree struct {
		FrameTree struct {
			Frame struct {
				ID string `json:"id"`
			} `json:"frame"`
		} `json:"frameTree"`
	}
	b.Ask("Page.getFrameTree", map[string]any{}, &tree)
	b.Ask("Page.setDocumentContent", map[string]any{"frameId": tree.FrameTree.Frame.ID, "html": page}, nil)
	b.Await("document.readyState === 'complete'")
}
