package handover

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
)

// Files are the descriptors of one attachment. Those that there are none of are nil.
type Files struct {
	AgentInput   *os.File // what the agent writes
	AgentOutput  *os.File // what it reads
	ServerInput  *os.File // the write end of the server's input
	ServerOutput *os.File // the read end of what the server writes
	Drained      *os.File // a pipe that is closed when the agent has all

	toAgent, toServer *pipe.Staging
}

// list is all of them, each in its place: that is where the next daemon looks for it.
func (f *Files) list() []*os.File {
	return []*os.File{f.AgentInput, f.AgentOutput, f.ServerInput, f.ServerOutput, f.Drained, f.toAgent.File(), f.toServer.File()}
}

const places = 7

// takeFiles is the other way of list, for what an earlier daemon has had kept. They are
// the caller's also when it fails.
func takeFiles(list []*os.File) (f Files, err error) {
	if len(list) != places {
		return f, fmt.Errorf("%w: it names %d descriptors and not %d", mapping.ErrDamaged, len(list), places)
	}
	f = Files{AgentInput: list[0], AgentOutput: list[1], ServerInput: list[2], ServerOutput: list[3], Drained: list[4]}
	if list[5] != nil {
		f.toAgent, err = pipe.TakeStaging(list[5])
	}
	if list[6] != nil && err == nil {
		f.toServer, err = pipe.TakeStaging(list[6])
	}
	if err == nil && (f.AgentInput == nil || f.AgentOutput == nil || f.Drained == nil) {
		err = fmt.Errorf("%w: a descriptor of the agent is missing", mapping.ErrDamaged)
	}
	return f, err
}

// stage makes the pipes through which each side is written.
func (f *Files) stage() (err error) {
	if f.toAgent, err = pipe.NewStaging(); err == nil && f.ServerInput != nil {
		f.toServer, err = pipe.NewStaging()
	}
	return err
}

// takeServer takes what leads to a server out of f.
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
			_ = f.Close() // nobody has written to it, or wants to know
		}
	}
}

// note writes down in a mapping what the descriptors lead to.
func (f *Files) note(m *mapping.Mapping) error {
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

// nameOf is the name under which the descriptors of an attachment are kept, whose id
// its shim has chosen.
func nameOf(attachment string) string {
	sum := sha256.Sum256([]byte(attachment))
	return hex.EncodeToString(sum[:8])
}
