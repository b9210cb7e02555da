package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/fleet"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
)

// startFleet puts the policy in force that the fleet of this machine had when the previous daemon
// ended. All that a change of the policy concerns must have been opened.
func (d *Daemon) startFleet() {
	d.fleetPolicy = fleet.NewPolicy(fleet.PolicyOptions{
		Dir: d.options.Paths.FleetDir(), Recorder: d.recorder, Logger: d.log,
		Check:  d.policies.checkBundle,
		Remove: func() { d.policies.useFleet(nil) },
		Damaged: func(why error) {
			d.policies.useFleet(func(own *policy.Set) *policy.Set { return own.WithoutFleet(why) })
		},
	})
	d.fleet.Use(d.queue, d.fleetPolicy)
	d.audit.KeepUnsent(d.sending)
	member, _ := d.fleet.Member()
	d.fleetPolicy.Start(member)
}

// checkBundle compiles the policy of a fleet. It returns what puts it in force.
func (p *policies) checkBundle(b *forms.Bundle, expired func() bool) (put func(), err error) {
	combine, err := p.combine(b, expired)
	return func() { p.useFleet(combine) }, err
}

// ValidateBundle implements api.Policies.
func (p *policies) ValidateBundle(text []byte) []config.Diagnostic {
	b, err := forms.ParseBundle(text)
	if err != nil {
		return []config.Diagnostic{{Severity: config.Error, Message: err.Error()}}
	}
	bundle, _, problems := p.compile(b)
	if bundle == nil || len(b.Approvers) > 0 {
		return problems
	}
	workflows := bundle.Config().Approval
	for _, name := range slices.Sorted(maps.Keys(workflows)) {
		if w := workflows[name]; slices.Contains(w.Surfaces, config.SurfaceColleague) {
			problems = append(problems, config.Diagnostic{
				File: b.Group + ".yaml", Line: w.Place.Line, Column: w.Place.Column, Severity: config.Warning,
				Message: fmt.Sprintf("the workflow %q takes answers from colleagues, and the group %s has no approvers", name, b.Group),
				Hint:    "name them: tgctl fleet policy publish FOLDER --group " + b.Group + " --approvers FILE",
			})
		}
	}
	return problems
}

// compile compiles the policy of a fleet. The set is nil if there are errors.
func (p *policies) compile(b *forms.Bundle) (*config.Bundle, *policy.Set, []config.Diagnostic) {
	var cedar []config.CedarText
	for _, file := range b.Cedar {
		cedar = append(cedar, config.CedarText{Name: file.Name, Text: []byte(file.Text)})
	}
	bundle, problems := config.ParseBundle(b.Group+".yaml", []byte(b.Rules), cedar, b.Mode == forms.ModeFloor)
	if bundle == nil {
		return nil, nil, problems
	}
	set, more := policy.LoadBundle(bundle, p.options...)
	return bundle, set, append(problems, more...)
}

// combine compiles the policy of a fleet. It returns what combines it with the user's own.
func (p *policies) combine(b *forms.Bundle, expired func() bool) (func(own *policy.Set) *policy.Set, error) {
	bundle, set, problems := p.compile(b)
	if set == nil {
		return nil, bundleError(problems)
	}
	if bundle.IsFloor() {
		return func(own *policy.Set) *policy.Set { return own.WithFloor(set) }, nil
	}
	return func(own *policy.Set) *policy.Set { return set.InPlaceOf(own, expired) }, nil
}

// bundleError returns the first error of a bundle, with its place, and how many more there are.
func bundleError(problems []config.Diagnostic) error {
	var first string
	more := -1
	for _, d := range problems {
		if d.Severity == config.Error {
			if more++; more == 0 {
				first = d.Remark()
			}
		}
	}
	if more > 0 {
		return fmt.Errorf("%s; %d more errors", first, more)
	}
	return errors.New(first)
}
