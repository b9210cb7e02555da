package connect

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// ConfigVar is the variable that names the configuration; see daemon/config. A daemon
// that was started without it does not know its value, so tgctl reports a difference.
const ConfigVar = "THOUGHTGATE_CONFIG"

// NamedConfig returns the configuration that the environment names as an absolute path,
// empty if it names none.
func (a *App) NamedConfig() (string, error) {
	return Absolute(a.Getenv(ConfigVar))
}

// ConfigMismatch returns a message if the daemon uses another configuration than the
// environment names, otherwise an empty string. inForce is the one it uses, empty for the
// built-in default.
func (a *App) ConfigMismatch(inForce string) string {
	named := a.Getenv(ConfigVar)
	if named == "" {
		return ""
	}
	want, err := os.Stat(named)
	if err == nil {
		if have, err := os.Stat(inForce); err == nil && os.SameFile(want, have) {
			return ""
		}
	}
	// A file that can't be read may have been removed; then the names decide.
	if path, err := filepath.Abs(named); err == nil && path == inForce {
		return ""
	}
	return fmt.Sprintf("%s names %s, but the running daemon uses %s", ConfigVar, named, cmp.Or(inForce, "its built-in default"))
}

// reportConfigMismatch prints the message of elsewhere, once per process.
func (a *App) reportConfigMismatch(ctx context.Context, c *client.Client) {
	if a.ConfigMismatchChecked || a.Getenv(ConfigVar) == "" {
		return
	}
	st, err := c.Status(ctx)
	if err != nil {
		return // the caller's next request fails in the same way and reports why
	}
	a.ConfigMismatchChecked = true
	if what := a.ConfigMismatch(st.GetSet().GetSource()); what != "" {
		a.PrintMessage("%s. To use the named one: tgctl daemon restart", display.Text(what))
	}
}

// ReportUnloadedConfig prints a note if the configuration on disk is not in force. It ignores
// errors: the caller's next request fails in the same way and reports why.
func (a *App) ReportUnloadedConfig(ctx context.Context, c *client.Client) {
	st, err := c.Status(ctx)
	set := st.GetSet()
	if err != nil || set == nil {
		return // no daemon: the configuration on disk is used
	}
	found, err := c.Validate(ctx, "")
	if err != nil {
		return
	}
	since := display.Moment(set.GetSince().AsTime(), a.Now())
	name := display.Text(found.GetPath())
	switch {
	case ui.CountErrors(found.GetProblems()) > 0:
		a.PrintMessage("%s has errors (see `tgctl policy check`) and is not in force; this result is by the configuration in force since %s.", name, since)
	case found.GetSet().GetDigest() != set.GetDigest() && name == "":
		a.PrintMessage("The configuration file was removed; this result is by the configuration in force since %s. To put the built-in default in force: tgctl daemon reload", since)
	case found.GetSet().GetDigest() != set.GetDigest():
		a.PrintMessage("%s or one of its policies has changed since it was loaded; this result is by the configuration in force since %s. To put the new one in force: tgctl daemon reload", name, since)
	}
}

// Absolute makes path absolute, since the daemon has another working directory. An empty path
// stays empty.
func Absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}
