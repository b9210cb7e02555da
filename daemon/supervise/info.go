package supervise

import (
	"context"
	"time"
)

// Kinds of what the daemon keeps running.
const (
	KindBackend   = "backend"   // a server that sessions share
	KindExtension = "extension" // a program that joins the gate
	KindAgent     = "agent"     // a headless run
)

// Info is one program that the daemon keeps, as a person is shown it.
type Info struct {
	Kind    string // KindBackend, ...
	Name    string // of the server, extension or agent; the kind and it find it again
	ID      string // tells two of one name apart; empty where there is only one
	Command []string
	Status  Status
	Began   time.Time // when the first life of it was started; zero before that
	Clients int       // shims that share it, or runs that wait for it
}

// Fleet is some of the programs that the daemon keeps. Its methods are safe for
// concurrent use.
type Fleet interface {
	// List returns them, sorted by kind, name and id.
	List() []Info
	// Tail is what the program last said on its standard error; false when
	// there is none of that kind and name. An empty id is the first of the name.
	Tail(kind, name, id string) (*Tail, bool)
	// Restart ends what runs and starts it anew with its whole budget; false
	// when there is none of that kind and name.
	Restart(ctx context.Context, kind, name, id string) (bool, error)
}
