package main

import (
	"fmt"
	"strings"
	"time"
)

const largeMessage = 8 << 20

// largeTool returns a result of that size.
var largeTool = fmt.Sprintf("size-%d", largeMessage)

// measureLarge measures large results and large arguments, each kind in sessions of its own: a
// peer may support only one of them.
func measureLarge(h *fixture, r *report, o options) error {
	searched := "all of them are searched for secrets, for paths, and for what hides either"
	for _, m := range []struct {
		name, tool, text string
		size             int
		note             string
	}{
		{"large.result", largeTool, "", largeMessage, ""},
		{"large.arguments", "write", strings.Repeat("y", largeMessage), largeMessage, searched},
		{"large.arguments.1", "write", strings.Repeat("y", 1<<20), 1 << 20, searched},
	} {
		c, speed := h.contest(), compared{}
		sessions, err := c.open()
		if err != nil {
			return err
		}
		err = c.inTurns(o.turns, func(place int) error {
			for i := range 3 {
				began := time.Now()
				if err := sessions[place].call("tools/call", m.tool, m.text); err != nil {
					return err
				}
				if i > 0 { // the first does not count: buffers have shrunk before it
					speed.note(place, float64(m.size)/1e6/time.Since(began).Seconds())
				}
			}
			c.ways[place].settle()
			return nil
		})
		if cerr := sessions.close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		row := c.rate(speed)
		row.Note = m.note
		r.add(m.name, row)
	}
	return nil
}
