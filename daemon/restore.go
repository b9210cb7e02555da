package daemon

import "github.com/thoughtgate/thoughtgated/internal/agentconf"

// restorer puts files back with the code that tgctl does it with.
type restorer struct {
	step func(string) // nil, but in tests
}

func (o restorer) Restore(journal []byte) (report string, free bool, err error) {
	unlock, held, err := agentconf.TryLock(journal)
	if err != nil || held {
		return "", !held, err
	}
	defer unlock()
	r, err := agentconf.RestoreSteps(journal, o.step)
	if r.State == agentconf.Untouched && r.String() == "" {
		return "", true, err
	}
	report = r.String()
	if report == "" {
		report = string(r.State)
	}
	return report, true, err
}

// lookup tells a variable that is not set from an empty one no more than getenv
// does.
func lookup(getenv func(string) string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value := getenv(name)
		return value, value != ""
	}
}
