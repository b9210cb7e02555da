// Package systemd holds the systemd units that start ThoughtGate's daemon for a user, as
// packages install them, and fills in the paths of the programs.
package systemd

import (
	"embed"
	"fmt"
	"strings"
)

// Service is the main unit; enabling it enables the others.
const Service = "thoughtgated.service"

// Units of surfaces, tgctl-notify.service, tgctl-slack.service and tgctl-phone.service, and
// tg-fleet.service are not among those that `tgctl daemon install` writes: each is of use only to who
// has a desktop, a Slack app or a phone, or has joined a fleet. Packages and `make install` put them
// beside the others, where a person enables them.

// Sockets are the units of the daemon's sockets.
var Sockets = []string{"thoughtgated.socket", "thoughtgated-shim.socket"}

//go:embed thoughtgated.service thoughtgated.socket thoughtgated-shim.socket
var units embed.FS

// Units returns the text of every unit by its name, with the absolute paths of the programs
// filled in. A path that systemd would not read literally is an error.
func Units(daemon, tgctl string) (map[string]string, error) {
	fill := make([]string, 0, 4)
	for from, path := range map[string]string{"=/usr/bin/thoughtgated": daemon, "=/usr/bin/tgctl": tgctl} {
		word, err := quote(path)
		if err != nil {
			return nil, err
		}
		fill = append(fill, from, "="+word)
	}
	filler := strings.NewReplacer(fill...)
	all := map[string]string{}
	for _, name := range append([]string{Service}, Sockets...) {
		text, err := units.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all[name] = filler.Replace(string(text))
	}
	return all, nil
}

// quote returns a path as a word of ExecStart=.
func quote(path string) (string, error) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\"'\\$\n\t;") {
		return "", fmt.Errorf("systemd can't start %q: it has to be absolute, and free of quotes, dollar signs, semicolons, backslashes and tabs", path)
	}
	path = strings.ReplaceAll(path, "%", "%%")
	if strings.Contains(path, " ") {
		return `"` + path + `"`, nil
	}
	return path, nil
}
