package gate

// Scope narrows the set in force to the project that a call is made in.
// project is a folder, as [Call.Project]. The function that it returns says what
// a set is there, and is kept for the call: whatever becomes of the project's
// files meanwhile, a call is judged by what they said when it came. It must be
// quick and is safe for concurrent use.
type Scope func(project string) func(Policy) Policy

// policy is what c is judged by: the set in force, as it is in the project of c.
func (g *Gate) policy(c *Call) Policy {
	set := g.Policy()
	if g.Scope == nil || c.Project == "" {
		return set
	}
	if c.scope == nil {
		c.scope = g.Scope(c.Project)
	}
	return c.scope(set)
}
