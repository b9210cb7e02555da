package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

func TestVersion(t *testing.T) {
	was := ui.Release
	ui.Release = "v0.1.0"
	defer func() { ui.Release = was }()
	c := newConsole("")
	if code := c.run(t, "version"); code != 0 || !strings.HasPrefix(c.Out.String(), "tgctl v0.1.0 (go") {
		t.Errorf("exit %d: %q", code, c.Out.String())
	}
	if code := c.run(t, "--version"); code != 0 || !strings.HasPrefix(c.Out.String(), "tgctl v0.1.0 (go") {
		t.Errorf("exit %d: %q", code, c.Out.String())
	}
	var v versionJSON
	if code := c.run(t, "version", "--json"); code != 0 || json.Unmarshal(c.Out.Bytes(), &v) != nil || v.Version != "v0.1.0" {
		t.Errorf("exit %d: %q", code, c.Out.String())
	}
}
