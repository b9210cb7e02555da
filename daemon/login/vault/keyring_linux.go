package vault

import (
	"errors"
	"fmt"
	"os"
)

// reachable keeps the library from starting a session bus of its own where there is none.
func reachable() error {
	switch address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address {
	case "", "autolaunch:":
		if _, err := os.Stat(fmt.Sprintf("/run/user/%d/bus", os.Getuid())); err != nil {
			return errors.New("there is no session bus, so there is no Secret Service")
		}
	}
	return nil
}
