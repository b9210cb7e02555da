package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// schemas are the JSON Schemas that --schema prints.
var schemas = map[string]func() []byte{
	"config": config.Schema, "project": config.ProjectSchema, "test": config.TestSchema,
}

func schema(kind string, stdout, stderr io.Writer) int {
	if _, err := stdout.Write(schemas[kind]()); err != nil {
		fmt.Fprintf(stderr, "thoughtgated: %v\n", err)
		return exitFailed
	}
	return 0
}

// policies answers questions about policies on standard input.
func policies(o options, getenv func(string) string, stderr io.Writer) int {
	err := func() error {
		conn, err := net.FileConn(os.Stdin)
		if err != nil {
			return errors.New("--policies is for tgctl, which hands it a socket as standard input")
		}
		log := newLogger(o, "policies", getenv, stderr)
		return daemon.ServePolicies(conn, o.config, getenv, log, release)
	}()
	if err != nil {
		fmt.Fprintf(stderr, "thoughtgated: %v\n", err)
		return exitFailed
	}
	return 0
}
