// Package inbox has the commands of tgctl with which a person answers questions, by command and on a
// full screen, revokes grants, and sets up the secret that proves presence.
package inbox

import "github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"

// app holds what these commands use.
type app struct{ *connect.App }
