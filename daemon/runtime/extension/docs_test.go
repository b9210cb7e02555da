package extension_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
)

// Every manifest in the documentation is valid.
func TestManifestsOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../docs/writing-extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1)
	if len(shown) != 2 {
		t.Errorf("the page shows %d manifests, want one for JSON and one for Go", len(shown))
	}
	for _, m := range shown {
		if _, problems := manifest.Parse("/x/extension.yaml", m[1]); len(problems) > 0 {
			t.Errorf("%v\n%s", problems, m[1])
		}
	}
}

// The complete extension of docs/writing-extensions.md does what the page says.
func TestTheExtensionOfTheDocumentation(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3:", err)
	}
	page, err := os.ReadFile("../../../docs/writing-extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for language, name := range map[string]string{"yaml": "extension.yaml", "python": "main.py"} {
		block := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```").FindSubmatch(page)
		if block == nil {
			t.Fatalf("there is no %s in the page", language)
		}
		if err := os.WriteFile(filepath.Join(dir, name), block[1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newFixture(t).start()
	if _, err := h.Install(t.Context(), dir, nil, extension.Actor{}); err != nil {
		t.Fatal(err)
	}
	if v := h.settled("no-force"); v.Status.State != supervise.Running {
		t.Fatalf("%+v", v.Status)
	}
	for arguments, want := range map[string]gate.Move{`{"args":["--force"]}`: gate.Deny, `{"args":[]}`: gate.Forward} {
		if got := h.Before(t.Context(), call(t, "git", "git_push", arguments)); got.Move != want {
			t.Errorf("%s: %+v", arguments, got)
		}
	}
	frame := regexp.MustCompile(`Content-Length: (\d+)\\r\\n\n\\r\\n\n(.*)\n`).FindSubmatch(page)
	if n, err := strconv.Atoi(string(frame[1])); err != nil || n != len(frame[2]) {
		t.Errorf("the frame says %s and has %d bytes", frame[1], len(frame[2]))
	}
}
