package handover

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
)

// Files are the descriptors of one attachment. Missing ones are nil.
type Files struct {
	AgentInput   *os.File // what the agent writes
	AgentOutput  *os.File // what the agent reads
	ServerInput  *os.File // write end of the server's input
	ServerOutput *os.File // read end of the server's output
	Drained      *os.File // a pipe that is closed when the agent has got all its output

	toAgent, toServer *pipe.Staging
}

// list returns all of them, each at a fixed index, where the next daemon looks for it.
func (f *Files) list() []*os.File {
	return []*os.File{f.AgentInput, f.AgentOutput, f.ServerInput, f.ServerOutput, f.Drained, f.toAgent.File(), f.toServer.File()}
}

const places = 7

// takeFiles is the inverse of list, for descriptors kept by a previous daemon. They still
// belong to the caller if it fails.
func takeFiles(list []*os.File) (f Files, err error) {
	if len(list) != places {
		return f, fmt.Errorf("%w: it lists %d descriptors, want %d", mapping.ErrCorrupt, len(list), places)
	}
	f = Files{AgentInput: list[0], AgentOutput: list[1], ServerInput: list[2], ServerOutput: list[3], Drained: list[4]}
	if list[5] != nil {
		f.toAgent, err = pipe.TakeStaging(list[5])
	}
	if list[6] != nil && err == nil {
		f.toServer, err = pipe.TakeStaging(list[6])
	}
	if err == nil && (f.AgentInput == nil || f.AgentOutput == nil || f.Drained == nil) {
		err = fmt.Errorf("%w: a descriptor of the agent is missing", mapping.ErrCorrupt)
	}
	return f, err
}

// stage creates the staging pipes.
func (f *Files) stage() (err error) {
	if f.toAgent, err = pipe.NewStaging(); err == nil && f.ServerInput != nil {
		f.toServer, err = pipe.NewStaging()
	}
	return err
}

// takeServer removes the server's descriptors from f and returns them.
func (f *Files) takeServer() []*os.File {
	all := []*os.File{f.ServerInput, f.ServerOutput, f.toServer.File()}
	f.ServerInput, f.ServerOutput, f.toServer = nil, nil, nil
	return all
}

// Close closes all of them.
func (f *Files) Close() { closeAll(f.list()...) }

func closeAll(all ...*os.File) {
	for _, f := range all {
		if f != nil {
			_ = f.Close() // nobody has written to it, or needs the error
		}
	}
}

// storeEnds stores in a mapping what the descriptors refer to.
func (f *Files) storeEnds(m *mapping.Mapping) error {
	var ends []mapping.End
	for _, file := range f.list() {
		var end mapping.End
		if file != nil {
			var err error
			if end, err = mapping.EndOf(file); err != nil {
				return err
			}
		}
		ends = append(ends, end)
	}
	return m.SetEnds(ends...)
}

// nameOf returns the name under which the descriptors of an attachment are kept. The id was
// chosen by tg-shim.
func nameOf(attachment string) string {
	sum := sha256.Sum256([]byte(attachment))
	return hex.EncodeToString(sum[:8])
}
