package scan

import (
	"sync"

	"github.com/thoughtgate/thoughtgated/client"
)

// maxWaiting is how many questions may wait for their answers.
const maxWaiting = 64

// asking puts questions to the gate, and goes on before they are answered. Answers come in the order of
// the questions, to one goroutine.
type asking struct {
	to      *client.Explaining
	config  string // sent with the first question
	begun   bool
	waiting chan func(*answer) // for the answers to come
	failed  chan struct{}      // closed once err is set
	err     error
	wait    sync.WaitGroup
}

// newAsking starts to receive answers. finish must be called.
func newAsking(to *client.Explaining, config string) *asking {
	a := &asking{to: to, config: config, waiting: make(chan func(*answer), maxWaiting), failed: make(chan struct{})}
	a.wait.Go(func() {
		for then := range a.waiting {
			got, err := a.to.Receive()
			if err != nil {
				a.err = err
				close(a.failed)
				return
			}
			then(got)
		}
	})
	return a
}

// ask sends a question, whose answer goes to then.
func (a *asking) ask(q *request, then func(*answer)) error {
	if !a.begun {
		q.Past, q.Config, a.begun = true, a.config, true
	}
	q.Brief = true
	select {
	case a.waiting <- then:
	case <-a.failed:
		return a.err
	}
	return a.to.Send(q)
}

// finish waits for all answers, and returns the first error.
func (a *asking) finish() error {
	close(a.waiting)
	a.wait.Wait()
	return a.err
}
