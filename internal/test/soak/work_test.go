package soak

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// work is one of a caller's hands: it asks one thing after the other until the run
// is over. What fails ends the run.
func (c *caller) work(seed uint64) {
	r := rand.New(rand.NewPCG(c.plan.seed, seed))
	for kind, more := c.next(); more; kind, more = c.next() {
		if err := c.turn(r, kind); err != nil && !c.stopped() {
			c.Error(err)
			return
		}
	}
}

// turn asks for one thing of those that agents ask for.
func (c *caller) turn(r *rand.Rand, kind token) error {
	switch kind {
	case hold:
		return c.held(r)
	case large:
		return c.large(r)
	}
	switch n := r.IntN(100); {
	case n < 8:
		return c.ping()
	case n < 16:
		return c.denied(r.IntN(2000))
	case n < 20 && !c.shared:
		return c.stall(time.Duration(r.IntN(20)) * time.Millisecond)
	case n < 24:
		return c.echo("calls answered", r.IntN(64<<10), r.IntN(64<<10))
	}
	return c.echo("calls answered", r.IntN(300), r.IntN(300))
}

func (c *caller) echo(what string, pad, size int) error {
	q, err := c.call(toolEcho, pad, size)
	if err != nil {
		return err
	}
	line, err := c.await(q)
	if err != nil {
		return err
	}
	if ok, err := c.right(q, line); !ok {
		return err
	}
	c.count(what, 1)
	return nil
}

// large asks with much, or for much: 1 to 8 MB, and less than 1 MB where an extension must
// answer within five seconds, on a machine that has much else to do.
func (c *caller) large(r *rand.Rand) error {
	n := 1<<20 + r.IntN(7<<20)
	if c.name == hookedServer {
		n %= 1 << 20
	}
	if r.IntN(2) == 0 {
		return c.echo("large arguments", n, 100)
	}
	return c.echo("large results", 100, n)
}

func (c *caller) ping() error {
	q, err := c.send("ping", "{}", &question{})
	if err != nil {
		return err
	}
	line, err := c.await(q)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", q.id); string(line) != want {
		if c.shared && strings.Contains(string(line), fmt.Sprint(lost)) {
			c.count("lost with a shared server", 1)
			return nil
		}
		return fmt.Errorf("%s: a ping: got %.300s want %s", c.name, line, want)
	}
	c.count("pings", 1)
	return nil
}

func (c *caller) denied(pad int) error {
	q, err := c.call(toolDenied, pad, 10)
	if err != nil {
		return err
	}
	line, err := c.await(q)
	if err != nil {
		return err
	}
	c.count("calls denied", 1)
	return c.refused(q, line)
}

// stall cancels a call that is with the server.
func (c *caller) stall(after time.Duration) error {
	q, err := c.call(toolStall, 100, 0)
	if err != nil {
		return err
	}
	c.rest(after)
	c.count("calls cancelled in flight", 1)
	return c.cancel(q)
}

// held has a person asked.
func (c *caller) held(r *rand.Rand) error {
	tool := []string{toolHeldYes, toolHeldYes, toolHeldNo, toolHeldCancel}[r.IntN(4)]
	q, err := c.call(tool, r.IntN(3000), 100)
	if err != nil {
		return err
	}
	if tool == toolHeldCancel {
		c.rest(time.Duration(r.IntN(400)) * time.Millisecond)
		c.count("calls cancelled while held", 1)
		return c.cancel(q)
	}
	line, err := c.await(q)
	if err != nil {
		return err
	}
	if tool == toolHeldNo {
		c.count("calls rejected by a person", 1)
		return c.refused(q, line)
	}
	ok, err := c.right(q, line)
	if err != nil {
		return err
	}
	if !c.person.said(q.name) {
		return fmt.Errorf("%s: %s went through before anybody had said yes", c.name, q.name)
	}
	if ok {
		c.count("calls let through by a person", 1)
	}
	return nil
}

// leave ends the agent as agents do, when all that it asked for is answered, and
// checks that its server was told of every call that was taken back.
func (c *caller) leave() error {
	if !c.shared {
		if err := c.eventually(c.name+": the server knows of every cancellation", func() error {
			q, err := c.call(toolStalled, 0, 0)
			if err != nil {
				return err
			}
			line, err := c.await(q)
			if err == nil && !strings.Contains(string(line), `"text":"0"`) {
				err = fmt.Errorf("calls that wait for one: %.300s", line)
			}
			return err
		}); err != nil {
			return err
		}
	}
	c.shim.HangUp()
	if code, ok := c.shim.Wait(patience); !ok || code != 0 {
		return fmt.Errorf("%s: its shim ended: %v, exit status %d: %s", c.name, ok, code, c.shim.Stderr())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.open {
		if !q.cancelled {
			return fmt.Errorf("%s: %s %d was never answered", c.name, q.tool, q.id)
		}
	}
	return nil
}

// crash has the server end without a word.
func (c *caller) crash() error {
	q, err := c.call(toolCrash, 0, 0)
	if err != nil {
		return err
	}
	line, err := c.await(q)
	if err != nil {
		return err
	}
	if !strings.Contains(string(line), fmt.Sprint(lost)) {
		return fmt.Errorf("%s: a server that ends: %.300s", c.name, line)
	}
	c.count("servers crashed", 1)
	if c.shared {
		return nil
	}
	if code, ok := c.shim.Wait(patience); !ok || code != crashed {
		return errors.New(c.name + ": the shim does not leave with its server: " + fmt.Sprint(code, ok, c.shim.Stderr()))
	}
	return nil
}
