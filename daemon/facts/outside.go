package facts

import (
	"context"
	"os"
	"strings"
	"time"
)

// outside adds a fact for a path that leads out of the session's project. p is its written form,
// end is where it leads.
func (c *candidate) outside(p, end string) {
	project := c.look.call.Project
	if project == "" || c.loose {
		return
	}
	end, within := foldPath(end), foldPath(c.own.project(c.look.ctx, project, c.look.call.Waited))
	if end == within || isBelow(end, within) || end == "/dev/null" || strings.HasPrefix(p, "/") && !c.own.isRoot(p) {
		return
	}
	c.look.add(Outside, "it leads outside the project", c.stand())
}

// project returns the folder of a project with its links followed. anew bypasses the cache, as in
// paths.
func (o *protectedPaths) project(ctx context.Context, folder string, anew bool) string {
	o.mu.Lock()
	known, led := !anew && o.folder == folder && time.Now().Before(o.until), o.led
	o.mu.Unlock()
	if known {
		return led
	}
	if led, _, _ = follow(ctx, "/", folder); ctx.Err() != nil {
		return led // the judgement has ended
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.folder, o.led = folder, led
	return led
}

// isRoot reports whether an absolute path begins in an existing folder. Other text that begins
// with a slash is more often a part of a URL than a path.
func (o *protectedPaths) isRoot(p string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	if first == "" || first == "." || first == ".." {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.roots == nil || time.Now().After(o.read) {
		o.roots, o.read = map[string]bool{}, time.Now().Add(ownFresh)
		entries, _ := os.ReadDir("/") // an unreadable root has no known folders
		for _, e := range entries {
			o.roots[e.Name()] = true
		}
	}
	return o.roots[first]
}
