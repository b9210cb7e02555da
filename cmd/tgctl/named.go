package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// configVar names the configuration, see daemon/config. A daemon that was started
// without it has never heard of it: where the two differ, it is said.
const configVar = "THOUGHTGATE_CONFIG"

// namedConfig is the configuration that the environment names, as an absolute path;
// empty where it names none.
func (a *app) namedConfig() (string, error) {
	return absolute(a.getenv(configVar))
}

// elsewhere says that the daemon goes by another configuration than the environment
// names; empty where it does not. inForce is what it goes by, empty for the built-in
// default.
func (a *app) elsewhere(inForce string) string {
	named := a.getenv(configVar)
	if named == "" {
		return ""
	}
	want, err := os.Stat(named)
	if err == nil {
		if have, err := os.Stat(inForce); err == nil && os.SameFile(want, have) {
			return ""
		}
	}
	// One that cannot be looked at may be the same by its name, and gone.
	if path, err := filepath.Abs(named); err == nil && path == inForce {
		return ""
	}
	if inForce == "" {
		inForce = "its built-in default"
	}
	return fmt.Sprintf("%s names %s, but the daemon that runs uses %s", configVar, named, inForce)
}

// tellElsewhere says so once in the life of this process.
func (a *app) tellElsewhere(ctx context.Context, c *client.Client) {
	if a.namedTold || a.getenv(configVar) == "" {
		return
	}
	st, err := c.Status(ctx)
	if err != nil {
		return // what the caller asks next fails alike, and says why
	}
	a.namedTold = true
	if what := a.elsewhere(st.GetSet().GetSource()); what != "" {
		a.say("%s. To use the one that is named: tgctl daemon restart", display.Text(what))
	}
}

// tellNotInForce says that what is on disk is not what the daemon judges by. What
// cannot be asked is not told: what the caller asks next fails alike, and says why.
func (a *app) tellNotInForce(ctx context.Context, c *client.Client) {
	st, err := c.Status(ctx)
	set := st.GetSet()
	if err != nil || set == nil {
		return // no daemon: what is on disk is read for this
	}
	found, err := c.Validate(ctx, "")
	if err != nil {
		return
	}
	since := display.Moment(set.GetSince().AsTime(), a.now())
	name := display.Text(found.GetPath())
	switch {
	case countErrors(found.GetProblems()) > 0:
		a.say("%s has errors, see `tgctl policy check`, and is not in force; this is by what has been since %s.", name, since)
	case found.GetSet().GetDigest() != set.GetDigest() && name == "":
		a.say("There is no configuration file any more; this is by what has been in force since %s. tgctl daemon reload puts the built-in default in force.", since)
	case found.GetSet().GetDigest() != set.GetDigest():
		a.say("%s, or a policy of it, is not what is in force; this is by what has been since %s. Put it in force: tgctl daemon reload", name, since)
	}
}
