package ext

import (
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// extChange is a difference between a version of an extension and the installed one.
type extChange struct {
	Wider bool   `json:"wider"` // may do or see more, or protects less
	What  string `json:"what"`  // for a person
}

// changes returns the differences between two manifests, the wider ones first.
func changes(was, is *pb.ExtensionManifest) []extChange {
	d := &extDiff{}
	d.lists("it may now: ", "it may no longer: ", was.GetPermissions(), is.GetPermissions(), permissionWord)
	d.hook("calls", was.GetBefore(), is.GetBefore())
	d.hook("results", was.GetAfter(), is.GetAfter())
	d.lists("it now gets from the environment: ", "it no longer gets from the environment: ", was.GetPass(), is.GetPass(), display.Name)
	if !slices.Equal(was.GetCommand(), is.GetCommand()) {
		d.add(true, "it runs "+ui.CommandLine(is.GetCommand())+" instead of "+ui.CommandLine(was.GetCommand()))
	}
	if !maps.Equal(was.GetEnv(), is.GetEnv()) {
		d.add(true, "other variables are set for it")
	}
	return slices.Concat(ui.Filter(*d, func(c extChange) bool { return c.Wider }), ui.Filter(*d, func(c extChange) bool { return !c.Wider }))
}

type extDiff []extChange

func (d *extDiff) add(wider bool, what display.Safe) {
	*d = append(*d, extChange{wider, string(what)})
}

// lists adds the elements that were added and removed.
func (d *extDiff) lists(more, less display.Safe, was, is []string, word func(string) display.Safe) {
	for _, one := range ui.Filter(is, func(one string) bool { return !slices.Contains(was, one) }) {
		d.add(true, more+word(one))
	}
	for _, one := range ui.Filter(was, func(one string) bool { return !slices.Contains(is, one) }) {
		d.add(false, less+word(one))
	}
}

// hook adds the differences between two versions of a hook. A hook that sees fewer calls
// protects fewer, which is worth a look as well; only one that sees more is wider.
func (d *extDiff) hook(what display.Safe, was, is *pb.ExtensionHook) {
	switch {
	case was == nil && is == nil:
		return
	case was == nil:
		d.add(true, "it now sees "+what+": "+hookWord(is))
		if is.GetOpen() {
			d.add(true, what+" are forwarded without it when it fails")
		}
		return
	case is == nil:
		d.add(false, "it no longer sees or guards "+what)
		return
	}
	for _, part := range []struct {
		name    display.Safe
		was, is []string
	}{{"servers", was.GetServers(), is.GetServers()}, {"tools", was.GetTools(), is.GetTools()}, {"methods", was.GetMethods(), is.GetMethods()}} {
		d.lists("it now sees "+what+" of "+part.name+" ", "it no longer sees "+what+" of "+part.name+" ", part.was, part.is, display.Name)
	}
	switch {
	case is.GetOpen() && !was.GetOpen():
		d.add(true, what+" are now forwarded without it when it fails")
	case was.GetOpen() && !is.GetOpen():
		d.add(false, what+" are no longer forwarded without it when it fails")
	}
}
