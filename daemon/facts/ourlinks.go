package facts

import (
	"time"
)

// followed returns the path of ours that p reaches from the folder from when links are followed,
// or "". The caller must have compared the written form, clean, already.
func (c *candidate) followed(from, p, clean string) string {
	known := from == "/" || from == c.look.call.Project
	to, ok := c.look.led[relativePath{from, p}]
	if !ok {
		to = c.follow(from, p)
		if c.look.led == nil {
			c.look.led = map[relativePath]resolvedPath{}
		}
		c.look.led[relativePath{from, p}] = to
	}
	if to.named != "" {
		return to.named
	}
	c.keepNamed(p, clean, to)
	if known {
		c.outside(p, to.end)
	}
	if to.end != clean {
		if named := c.compare(to.end); named != "" {
			return named
		}
	}
	return c.linked(to.file)
}

// follow resolves the links of p and counts against the limit of the call.
func (c *candidate) follow(from, p string) resolvedPath {
	if c.look.follow++; c.look.follow > mostFollowed {
		return resolvedPath{named: "one of too many paths to resolve"}
	}
	select {
	case c.own.slots <- struct{}{}:
	default:
		patience := time.NewTimer(slotPatience)
		defer patience.Stop()
		select {
		case c.own.slots <- struct{}{}:
		case <-c.look.ctx.Done():
			return resolvedPath{}
		case <-patience.C:
			return resolvedPath{named: "a path whose links could not be resolved in time"}
		}
	}
	defer func() { <-c.own.slots }()
	if from != "/" {
		from = c.own.project(c.look.ctx, from, c.look.call.Waited)
	}
	end, exists, file := follow(c.look.ctx, from, p)
	if throughSelf(end) {
		return resolvedPath{named: "a path through /proc/self, which only the server can resolve"}
	}
	return resolvedPath{end: end, exists: exists, file: file}
}
