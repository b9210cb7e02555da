// Package launchd takes over the sockets that macOS's service manager holds for
// this process. Elsewhere there are none.
package launchd
