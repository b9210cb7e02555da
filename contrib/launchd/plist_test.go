package launchd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"howett.net/plist"
)

// job holds the keys of the property list, see launchd.plist(5).
type job struct {
	Label              string
	ProgramArguments   []string
	Sockets            map[string]socket
	RunAtLoad          bool
	KeepAlive          map[string]bool
	ExitTimeOut        int
	ProcessType        string
	Umask              int
	HardResourceLimits map[string]int
	StandardErrorPath  string
}

type socket struct {
	SockPathName string
	SockPathMode int
}

// The paths contain characters that must be escaped in a property list.
func TestPlist(t *testing.T) {
	p := Paths{
		Daemon: "/Users/ann & <bob>/.local/bin/thoughtgated", Log: "/Users/ann/Library/Logs/thoughtgated.log",
		Control: "/Users/ann/Library/Application Support/thoughtgate/run/control.sock",
		Shim:    "/Users/ann/Library/Application Support/thoughtgate/run/shim.sock",
	}
	text, err := p.Plist()
	if err != nil {
		t.Fatal(err)
	}
	want := job{
		Label: Label, ProgramArguments: []string{p.Daemon, "--keep"},
		Sockets:   map[string]socket{"control": {p.Control, 0o600}, "shim": {p.Shim, 0o600}},
		RunAtLoad: true, KeepAlive: map[string]bool{"SuccessfulExit": false}, ExitTimeOut: 20, ProcessType: "Background",
		Umask: 0o077, HardResourceLimits: map[string]int{"Core": 0}, StandardErrorPath: p.Log,
	}
	var got job
	if _, err := plist.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the property list (-want +got):\n%s", diff)
	}
	if strings.Contains(text, "@") {
		t.Errorf("a word was not replaced:\n%s", text)
	}

	// launchd and the decoder silently ignore unknown keys.
	var all map[string]any
	if _, err := plist.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	for key := range all {
		if !known[key] {
			t.Errorf("launchd.plist(5) has no key %q", key)
		}
	}
	sockets, _ := all["Sockets"].(map[string]any)
	for name, s := range sockets {
		keys, _ := s.(map[string]any)
		for key := range keys {
			if key != "SockPathName" && key != "SockPathMode" {
				t.Errorf("socket %s: unexpected key %q", name, key)
			}
		}
	}
}

var known = map[string]bool{
	"Label": true, "ProgramArguments": true, "Sockets": true, "RunAtLoad": true, "KeepAlive": true, "ExitTimeOut": true,
	"ProcessType": true, "Umask": true, "HardResourceLimits": true, "StandardErrorPath": true,
}

func TestPlistWantsAbsolutePaths(t *testing.T) {
	if _, err := (Paths{Daemon: "thoughtgated", Control: "/c", Shim: "/s", Log: "/l"}).Plist(); err == nil {
		t.Error("a relative path was taken")
	}
}
