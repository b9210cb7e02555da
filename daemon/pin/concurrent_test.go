package pin

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Shims list, call and leave while people look and accept and the mode changes.
func TestConcurrentUse(t *testing.T) {
	d := newDesk(t, config.PinHold)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			s := d.shim(fmt.Sprintf("a%d", i), "files", fmt.Sprintf("l%d", i%2))
			for n := range 20 {
				if _, err := d.Listed(context.Background(), s.from("tools/list", ""), []gate.Offered{[]gate.Offered{echo, echo2, echo3}[n%3], read}); err != nil {
					t.Error(err)
				}
				s.may("echo")
				d.Annotations(s.from("tools/call", "echo"))
				if n%5 == 0 {
					d.Relist(s.attachment, "tools/list")
				}
			}
			d.Left(s.attachment)
		})
	}
	wait.Go(func() {
		for n := range 20 {
			for _, p := range d.List("") {
				if _, err := d.Diff(context.Background(), p.Ref); err != nil {
					t.Error(err)
				}
				// Another definition may wait now; then this is refused.
				_, _ = d.Accept(context.Background(), []Acceptance{{p.Ref, p.Waiting[:]}}, By{"ana", "terminal"})
			}
			d.Servers()
			d.Warnings()
			d.SetMode([]config.PinMode{config.PinHold, config.PinWarn, config.PinOff}[n%3])
		}
	})
	wait.Wait()
	d.restart(t)
}

func BenchmarkOf(b *testing.B) {
	d := newDesk(b, config.PinHold)
	s := d.shim("a1", "files", "l1")
	var tools []gate.Offered
	for i := range 50 {
		tools = append(tools, tool(fmt.Sprintf("tool_number_%d", i), "Read one thing or some_other_thing; see tool_number_1."))
	}
	s.list(b, tools...)
	call := s.from("tools/call", "tool_number_7")
	for b.Loop() {
		d.Of(call)
	}
}

func BenchmarkListedAgain(b *testing.B) {
	d := newDesk(b, config.PinHold)
	s := d.shim("a1", "files", "l1")
	var tools []gate.Offered
	for i := range 50 {
		tools = append(tools, tool(fmt.Sprintf("tool_number_%d", i), "Read one thing or some_other_thing; see tool_number_1."))
	}
	s.list(b, tools...)
	for b.Loop() {
		s.list(b, tools...)
	}
}
