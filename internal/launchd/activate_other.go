//go:build !darwin

package launchd

import "net"

// Sockets returns nothing: launchd runs on macOS only.
func Sockets(string) ([]net.Listener, error) { return nil, nil }
