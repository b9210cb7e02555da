package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// systemd is asked only where it is the one that would use our folders, and
// knows the unit.
func TestServiceManager(t *testing.T) {
	for _, test := range []struct {
		name     string
		load     string
		env      string // of the manager, beyond HOME
		change   func(c *console)
		noSystem bool
		want     bool
	}{
		{name: "installed", load: "loaded", want: true},
		{name: "not installed", load: "not-found"},
		{name: "masked", load: "masked"},
		{name: "no user manager", load: "loaded", noSystem: true},
		{name: "another state folder", load: "loaded", change: func(c *console) { c.env["XDG_STATE_HOME"] = "/elsewhere" }},
		{name: "the same state folder", load: "loaded", env: "XDG_STATE_HOME=/elsewhere", change: func(c *console) { c.env["XDG_STATE_HOME"] = "/elsewhere" }, want: true},
		{name: "another home", load: "loaded", change: func(c *console) { c.env["HOME"] = "/elsewhere" }},
		{name: "no runtime folder", load: "loaded", change: func(c *console) { delete(c.env, "XDG_RUNTIME_DIR") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			runtime := shortDir(t)
			c := newConsole("")
			c.env = map[string]string{"HOME": "/home/ana", "XDG_RUNTIME_DIR": runtime}
			if !test.noSystem {
				if err := os.MkdirAll(filepath.Join(runtime, "systemd"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(runtime, "systemd", "private"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if test.change != nil {
				test.change(c)
			}
			bin := t.TempDir()
			script := "#!/bin/sh\ncase \"$*\" in\n*LoadState*thoughtgated.service) echo " + test.load + " ;;\n*show-environment) echo HOME=/home/ana; echo '" + test.env + "' ;;\n*) exit 1 ;;\nesac\n"
			if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			paths, err := sock.DefaultPaths(c.app.getenv)
			if err != nil {
				t.Fatal(err)
			}
			got := c.app.serviceManager(t.Context(), paths)
			want := []string{filepath.Join(bin, "systemctl"), "--user", "start", "thoughtgated.service"}
			if !test.want {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
