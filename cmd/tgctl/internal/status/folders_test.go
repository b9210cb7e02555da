package status

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// TestStatusSaysWhereNothingCanBeKept checks that status reports a full disk and a directory
// that cannot be written, with the path and the fix, whether or not a daemon runs.
func TestStatusSaysWhereNothingCanBeKept(t *testing.T) {
	well := host.Space{Free: 40 << 30, Files: 1 << 20}
	for _, test := range []struct {
		name   string
		space  host.Space
		denied error
		want   string
	}{
		{"full", host.Space{Free: 3 << 20, Files: 1 << 20}, nil, "is full or almost full (3 MB are free); free space there"},
		{"no files", host.Space{Free: 40 << 30}, nil, "free space there"},
		{"read-only", well, syscall.EROFS, ": read-only file system; make it writable for its owner"},
		{"denied", well, syscall.EACCES, ": permission denied; make it writable for its owner"},
		{"well", well, nil, ""},
	} {
		for _, daemon := range []string{"running", "stopped"} {
			t.Run(test.name+" "+daemon, func(t *testing.T) {
				h := consoletest.NewHome(t)
				state, socket := h.Mkdir(".local/state/thoughtgate"), filepath.Join(h.Mkdir("run/thoughtgate"), "control.sock")
				if daemon == "running" {
					f := consoletest.Start(t)
					f.Status, socket = consoletest.Healthy(), f.Socket
				}
				c := consoletest.New(socket, func(a *connect.App) *cobra.Command {
					return command(a, func(string) error { return test.denied }, func(string) (host.Space, error) { return test.space, nil })
				})
				c.Env["HOME"], c.Env["XDG_RUNTIME_DIR"] = h.Dir, filepath.Join(h.Dir, "run")
				c.Run(t, "status", "--json")
				var got struct {
					Folders []string `json:"folder_problems"`
				}
				if err := json.Unmarshal(c.Out.Bytes(), &got); err != nil {
					t.Fatalf("%v: %s", err, c.Out.String())
				}
				if test.want == "" {
					if len(got.Folders) > 0 {
						t.Errorf("it finds %q", got.Folders)
					}
					return
				}
				if len(got.Folders) < 2 || !strings.Contains(got.Folders[0], state) || !strings.Contains(got.Folders[0], test.want) {
					t.Errorf("it says %q, want the folder and %q", got.Folders, test.want)
				}
				c.Run(t, "status")
				if out := c.Out.String(); strings.Count(out, "folder ") < 2 {
					t.Errorf("status does not say it:\n%s", out)
				}
			})
		}
	}
}
