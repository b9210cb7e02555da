package agentconf

// shadow marks the entries of the same name as one that counts for more.
// Entries come strongest first.
func shadow(strongestFirst []*Entry) {
	shadowBy(func(name string) string { return name }, strongestFirst)
}

// shadowBy is shadow for an agent that takes names for the same whose key is.
func shadowBy(key func(string) string, strongestFirst []*Entry) {
	seen := map[string]bool{}
	for _, e := range strongestFirst {
		if seen[key(e.ID)] && e.Off == Starts {
			e.Off = Shadowed
		}
		if e.Off != Inactive {
			seen[key(e.ID)] = true
		}
	}
}
