package api

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// This file has the checks of the level watch. Each one recognizes an agent, or a process that an
// agent started, by another property. None of them is a security boundary. SECURITY.md says what
// evades all of them.

// marks are environment variables that only processes started by a wrap carry.
var marks = []string{"THOUGHTGATE_ACTIVE=", "THOUGHTGATE_SESSION=", "THOUGHTGATE_SERVER="}

// suspect returns why a caller is taken for an agent, or "" if nothing indicates it.
func (s *Server) suspect(c *caller) string {
	if why := s.below(c, c.TTY != ""); why != "" {
		return why
	}
	if why := elsewhere(c.PID); !c.known && why != "" {
		return why
	}
	if unit := transient(c.seen.Cgroup, s.uid); unit != "" && unit != transient(s.cgroup, s.uid) {
		return "it runs in the transient unit " + unit + ", which any program may have started"
	}
	return s.beside(c)
}

// below returns why a caller is taken for a process that an agent started, or "" if nothing
// indicates it. terminal reports whether the caller counts as having a terminal.
func (s *Server) below(c *caller, terminal bool) string {
	if why := s.Sessions.Agent(c.line, terminal); why != "" {
		return why
	}
	if slices.Contains(c.line[1:], s.self.Process) {
		return "it was started by the daemon"
	}
	return marked(c)
}

// marked returns how the environment of the caller, or of an ancestor, shows that an agent started
// it.
func marked(c *caller) string {
	if !c.known {
		env, err := proc.Environ(c.PID)
		if err != nil {
			return fmt.Sprintf("its environment can't be read (%v)", err)
		}
		if mark := markIn(env); mark != "" {
			return "it has " + mark + " in its environment"
		}
	}
	for _, p := range c.above {
		// Processes of other users, such as a session manager, can't be inspected.
		if env, err := proc.Environ(p.PID); err == nil {
			if mark := markIn(env); mark != "" {
				return fmt.Sprintf("its ancestor %d has %s in its environment", p.PID, mark)
			}
		}
	}
	return ""
}

func markIn(env []string) string {
	for _, entry := range env {
		for _, mark := range marks {
			if strings.HasPrefix(entry, mark) {
				return strings.TrimSuffix(mark, "=")
			}
		}
	}
	return ""
}

// elsewhere returns why the identity that the caller shows can't be trusted.
func elsewhere(pid int32) string {
	same, err := proc.SameUserNamespace(pid)
	switch {
	case err != nil:
		return fmt.Sprintf("its user namespace can't be read (%v)", err)
	case !same:
		return "it runs in another user namespace"
	}
	return ""
}

// passing matches the unit names that systemd-run generates.
var passing = regexp.MustCompile(`^run-(u|r|p)?[0-9a-f]+(-i[0-9]+)?\.service$`)

// transient returns the systemd unit of a control group if that unit is a service made for one
// command: its processes descend from the manager, whoever asked for them. Desktops also start
// programs that way, under names of their own; those are accepted. So are scopes, whose processes
// keep their parents.
func transient(cgroup string, uid int) string {
	parts := strings.Split(cgroup, "/")
	for _, name := range slices.Backward(parts) {
		switch filepath.Ext(name) {
		case ".scope":
			return ""
		case ".service":
			if passing.MatchString(name) {
				return name
			}
			if strings.HasPrefix(name, "app-") || strings.HasPrefix(name, "dbus-") {
				return ""
			}
			for _, dir := range []string{fmt.Sprintf("/run/user/%d/systemd/transient", uid), "/run/systemd/transient"} {
				if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
					return name
				}
			}
			return ""
		}
	}
	return ""
}

// beside returns why a caller that does not descend from an agent may still belong to one: it uses
// an agent's terminal, or was left behind in an agent's control group.
func (s *Server) beside(c *caller) string {
	for _, running := range s.Sessions.Agents() {
		left := func(top proc.Info) string {
			return fmt.Sprintf("process %d was left behind in the control group of %s", top.PID, running.What)
		}
		if running.Ended != 0 { // a wrap that was killed: what it left behind was started while it ran
			if top, ok := c.leftIn(running.Cgroup); ok && top.Start > running.Start && top.Start <= running.Ended {
				return left(top)
			}
			continue
		}
		p, err := proc.Look(running.PID)
		if err != nil || p.Process != running.Process {
			continue // it has ended
		}
		// What an agent types into its terminal looks like its owner's input, even when the agent
		// is not in the foreground any more. The process that started the agent there is excepted:
		// it does not need the agent for that.
		if p.TTY != "" && p.TTY == c.TTY && !above(p.PID, c) {
			return fmt.Sprintf("it is on %s, the terminal of %s", c.TTY, running.What)
		}
		group, err := proc.Cgroup(p.PID)
		if err != nil {
			continue
		}
		if top, ok := c.leftIn(group); ok && top.Start >= p.Start && !above(p.PID, &caller{Info: top}) {
			return left(top)
		}
	}
	return ""
}

// leftIn returns the topmost process of the caller's line in group, if group is the caller's own
// control group. left reports whether the parent of that process has ended.
func (c *caller) leftIn(group string) (top proc.Info, left bool) {
	if group == "" || group == "/" || group != c.seen.Cgroup {
		return proc.Info{}, false
	}
	if c.groups == nil {
		c.groups = c.cgroups()
	}
	top = c.topmost(group, c.groups)
	return top, reaper(top.PPID)
}

// above reports whether c is the process pid or one of its ancestors.
func above(pid int32, c *caller) bool {
	if pid == c.PID {
		return true
	}
	ancestors, err := proc.Ancestors(pid)
	return err == nil && slices.ContainsFunc(ancestors, func(a proc.Info) bool { return a.Process == c.Process })
}

// cgroups returns the control groups of the caller and of each ancestor.
func (c *caller) cgroups() []string {
	all := []string{c.seen.Cgroup}
	for _, p := range c.above {
		group, err := proc.Cgroup(p.PID)
		if err != nil {
			group = "" // it has ended, and its children have another parent
		}
		all = append(all, group)
	}
	return all
}

// topmost returns the last process of the caller's line before the first one that is not in group.
func (c *caller) topmost(group string, cgroups []string) proc.Info {
	top := c.Info
	for i, p := range c.above {
		if cgroups[i+1] != group {
			break
		}
		top = p
	}
	return top
}

// reaper reports whether pid is a process that adopts orphans (init or a systemd manager), and so
// did not start its children.
func reaper(pid int32) bool {
	if pid <= 1 {
		return pid == 1
	}
	group, err := proc.Cgroup(pid)
	return err == nil && strings.HasSuffix(group, "/init.scope")
}
