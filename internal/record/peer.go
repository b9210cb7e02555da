package record

import (
	"encoding/json"
	"strconv"
)

// Peer is a process that called on the control socket, as the kernel showed it
// at that moment. Nothing of it is what the process says of itself, but the
// names of programs, which are where their files lay.
type Peer struct {
	UID        uint32   `json:"uid"`
	PID        int32    `json:"pid"`
	Start      uint64   `json:"start"`                // when it started, in the platform's unit; with the pid it names the process until the next boot
	Handle     bool     `json:"handle,omitempty"`     // the kernel gave a handle (pidfd) of just this process, so that its pid can't have been another's
	Exe        string   `json:"exe,omitempty"`        // its program
	TTY        string   `json:"tty,omitempty"`        // its terminal; empty without one
	Foreground string   `json:"foreground,omitempty"` // who had that terminal in the foreground, as "4711 /usr/bin/tgctl"
	Cgroup     string   `json:"cgroup,omitempty"`     // its control group
	Above      []string `json:"above,omitempty"`      // its ancestors, nearest first, as "4700 /usr/bin/bash"
}

// appendPeer appends the member that holds p, nothing for nil.
func appendPeer(dst []byte, p *Peer) []byte {
	if p == nil {
		return dst
	}
	dst = strconv.AppendUint(append(appendName(dst, "peer"), `{"uid":`...), uint64(p.UID), 10)
	dst = strconv.AppendInt(append(dst, `,"pid":`...), int64(p.PID), 10)
	dst = strconv.AppendUint(append(dst, `,"start":`...), p.Start, 10)
	dst = appendTrue(dst, "handle", p.Handle)
	dst = appendText(dst, "exe", p.Exe)
	dst = appendText(dst, "tty", p.TTY)
	dst = appendText(dst, "foreground", p.Foreground)
	dst = appendText(dst, "cgroup", p.Cgroup)
	return append(appendList(dst, "above", p.Above), '}')
}

// peer reads what appendPeer has written.
func (c *cursor) peer() *Peer {
	start := c.at
	c.skip()
	p := &Peer{}
	if c.err == nil && json.Unmarshal(c.line[start:c.at], p) != nil {
		c.fail("a peer is malformed")
	}
	if len(p.Above) == 0 {
		p.Above = nil // as it would be written
	}
	return p
}
