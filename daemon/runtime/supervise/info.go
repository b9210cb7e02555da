package supervise

import (
	"context"
	"time"
)

// Kinds of programs that the daemon keeps running.
const (
	KindBackend   = "backend"   // a shared server
	KindExtension = "extension" // an extension
	KindAgent     = "agent"     // a headless run
)

// Info describes one program that the daemon keeps running, for a person.
type Info struct {
	Kind    string // KindBackend, ...
	Name    string // of the server, extension or agent; unique within Kind, except for ID
	ID      string // distinguishes programs with the same name; empty if there is only one
	Command []string
	Status  Status
	Began   time.Time // when its first life was started; zero before that
	Clients int       // shims that share it, or runs that wait for it
}

// Fleet is a group of programs that the daemon keeps running. Its methods are safe for concurrent
// use.
type Fleet interface {
	// List returns the programs, sorted by kind, name and id.
	List() []Info
	// Tail returns the program's last lines of standard error, or false if there is no program with
	// this kind and name. An empty id selects the first one with that name.
	Tail(kind, name, id string) (*Tail, bool)
	// Restart ends the program and starts it again with its whole budget. It returns false if there
	// is no program with this kind and name.
	Restart(ctx context.Context, kind, name, id string) (bool, error)
}
