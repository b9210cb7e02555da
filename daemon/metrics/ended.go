package metrics

import "sync"

// Ending is how the process of a server has ended.
type Ending string

const (
	Exited    Ending = "exited"
	Signalled Ending = "signalled"
	Failed    Ending = "failed" // it could not be started
)

// Ended counts a process of a server that has ended.
func (m *Metrics) Ended(server string, how Ending) {
	m.ended.mu.Lock()
	defer m.ended.mu.Unlock()
	m.ended.by[[2]string{m.servers.of("", server), string(how)}]++
}

// endings counts the processes that have ended, by server and state.
type endings struct {
	mu sync.Mutex // guards by
	by map[[2]string]float64
}

// addTo adds them to those that run.
func (e *endings) addTo(by map[[2]string]float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, n := range e.by {
		by[k] += n
	}
}
