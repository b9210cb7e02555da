package config

import (
	"strings"
	"testing"
)

func TestSlackChannel(t *testing.T) {
	for name, want := range map[string]bool{
		"C0123ABCD": true, "D01": true, "ops": true, "#ops-2_x": true, "café": true, "日本語": true, "#٣": true,
		strings.Repeat("é", slackName): true, "#" + strings.Repeat("x", slackName): true,
		strings.Repeat("é", slackName+1): false, "": false, "#": false, "##ops": false, "Ops": false, "X012": false,
		"<!channel>": false, "a b": false, "ops\n": false, "ops\xff": false, "o.ps": false,
	} {
		if got := isSlackChannel(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
