// Package launchd receives the sockets that macOS's service manager holds for this process. On
// other systems there are none.
package launchd
