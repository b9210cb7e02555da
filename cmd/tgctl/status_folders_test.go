package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// TestStatusSaysWhereNothingCanBeKept checks that status reports a full disk and a directory
// that cannot be written, with the path and the fix, whether or not a daemon runs.
func TestStatusSaysWhereNothingCanBeKept(t *testing.T) {
	for _, test := range []struct {
		name   string
		breaks func(*fixture)
		want   string
	}{
		{"full", func(h *fixture) { h.world.space.Free = 3 << 20 }, "is full or almost full (3 MB are free); free space there"},
		{"no files", func(h *fixture) { h.world.space.Files = 0 }, "free space there"},
		{"read-only", func(h *fixture) { h.world.denied = syscall.EROFS }, ": read-only file system; make it writable for its owner"},
		{"denied", func(h *fixture) { h.world.denied = syscall.EACCES }, ": permission denied; make it writable for its owner"},
		{"well", func(*fixture) {}, ""},
	} {
		for _, state := range []string{"running", "stopped"} {
			t.Run(test.name+" "+state, func(t *testing.T) {
				h := newDoctorsFixture(t)
				if state == "stopped" {
					h.stop()
				}
				test.breaks(h)
				h.examine() // gives the console the fake machine
				h.console.run(t, "status", "--json")
				var got struct {
					Folders []string `json:"folder_problems"`
				}
				if err := json.Unmarshal(h.console.Out.Bytes(), &got); err != nil {
					t.Fatalf("%v: %s", err, h.console.Out.String())
				}
				if test.want == "" {
					if len(got.Folders) > 0 {
						t.Errorf("it finds %q", got.Folders)
					}
					return
				}
				if len(got.Folders) < 2 || !strings.Contains(got.Folders[0], h.path(".local/state/thoughtgate")) || !strings.Contains(got.Folders[0], test.want) {
					t.Errorf("it says %q, want the folder and %q", got.Folders, test.want)
				}
				h.console.run(t, "status")
				if out := h.console.Out.String(); strings.Count(out, "folder ") < 2 {
					t.Errorf("status does not say it:\n%s", out)
				}
			})
		}
	}
}
