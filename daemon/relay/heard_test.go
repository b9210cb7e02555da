package relay

import (
	"runtime"
	"testing"
)

// A line counts as not handled from the moment at which it is no longer visible in the input:
// otherwise a session that ends would not wait for it.
func TestWhatIsReadIsNotHeardYet(t *testing.T) {
	for name, shared := range map[string]bool{"pipes": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, play{shared: shared})
			const line = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
			in := s.session.inputs[fromServer]
			if shared { // one is available
				s.deliver(line)
				<-s.out[fromAgent]
			}
			for n := range 200 {
				if err := s.until("all was heard", in.handledAll); err != nil {
					t.Fatal(err)
				}
				s.session.mu.Lock() // so that nothing is handled
				if shared {
					s.deliver(line)
				} else if _, err := s.in[fromServer].WriteString(line + "\n"); err != nil {
					t.Fatal(err)
				}
				heard := false
				for range 200 {
					heard = heard || in.handledAll()
					runtime.Gosched()
				}
				s.session.mu.Unlock()
				if heard {
					t.Fatalf("line %d was heard before it was dealt with", n)
				}
				if got := <-s.out[fromAgent]; got != line {
					t.Fatalf("the agent reads %s", got)
				}
			}
		})
	}
}
