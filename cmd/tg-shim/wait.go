package main

import (
	"sync"
	"time"
)

// waitWhile waits on c until busy is false, for d at most. busy is called with
// c's lock held, which the caller does not hold.
func waitWhile(c *sync.Cond, d time.Duration, busy func() bool) {
	late := false
	alarm := time.AfterFunc(d, func() {
		c.L.Lock()
		defer c.L.Unlock()
		late = true
		c.Broadcast()
	})
	defer alarm.Stop()
	c.L.Lock()
	defer c.L.Unlock()
	for busy() && !late {
		c.Wait()
	}
}
