package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	largeResult    = 8 << 20
	largeArguments = 1 << 20
)

// measureLarge moves large results and large arguments.
func measureLarge(h *house, r *report, o options) error {
	peers, err := h.open()
	if err != nil {
		return err
	}
	var down, up compared
	tool, text := fmt.Sprintf("size-%d", largeResult), strings.Repeat("y", largeArguments)
	// each sends one message and says how fast its bytes went.
	each := func(p *peer, tool, text string, size int) (float64, error) {
		began := time.Now()
		err := p.call("tools/call", tool, text)
		return float64(size) / 1e6 / time.Since(began).Seconds(), err
	}
	err = inTurns(o.turns, func(way int) error {
		// The first of each is not counted: buffers have shrunk meanwhile.
		for i := range 3 {
			fast, err := each(peers[way], tool, "", largeResult)
			if err != nil {
				return err
			}
			slow, err := each(peers[way], "write", text, largeArguments)
			if err != nil {
				return err
			}
			if i > 0 {
				down[way], up[way] = append(down[way], fast), append(up[way], slow)
			}
		}
		if way == ours {
			h.settle()
		}
		return nil
	})
	if cerr := peers.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		compared
		note string
	}{{"large.result", down, ""}, {"large.arguments", up, "all of them are searched for secrets, for paths, and for what hides either"}} {
		row := m.row()
		row.Ratio, row.Added, row.Note = m.timesFloor(), nil, m.note
		r.add(m.name, row)
	}
	return nil
}
