// Package server runs the engine of a fleet in this process, for tests and the demo: the
// stock server with its real protocol, TLS and store.
package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience is how long a server may take to start.
const patience = 30 * time.Second

// Start starts the node of the engine whose folder is dir: the one that tg-fleet init has
// written for one node.
func Start(dir string) (*server.Server, error) {
	return StartNode(filepath.Join(dir, "server", "engine-1.conf"), "")
}

// StartNode starts a node with a configuration that tg-fleet init has written. With a host
// it listens at that address only, so that one machine has room for several nodes.
func StartNode(config, host string) (*server.Server, error) {
	options, err := server.ProcessConfigFile(config)
	if err != nil {
		return nil, err
	}
	options.NoSigs = true
	if host != "" {
		options.Host, options.Cluster.Host, options.Websocket.Host = host, host, host
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	go s.Start() // ends with Shutdown
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		return nil, errors.New("the engine does not accept connections")
	}
	return s, nil
}

// FreePort returns a port of loopback that nobody listens at. Systems choose ports above these, so that none
// is given to another program before the engine listens.
func FreePort() (port int, err error) {
	for range 100 {
		port = 10_000 + rand.N(20_000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a port: %w", err)
}
