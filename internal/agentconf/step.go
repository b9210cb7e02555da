package agentconf

// OnStep has told be called with the name of each step once it was taken: those
// of the plan's own methods, which a process may be killed after. It is for
// tests, which do that.
func (p *Plan) OnStep(told func(step string)) { p.step = told }

// RestoreSteps is [Restore] that tells of its steps, as [Plan.OnStep] does, unless
// told is nil.
func RestoreSteps(journal []byte, told func(step string)) (Report, error) {
	if told == nil {
		told = func(string) {}
	}
	return restore(journal, told)
}
