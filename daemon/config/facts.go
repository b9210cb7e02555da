package config

// Facts lists the facts that rules and policies may name.
func Facts() []string { return Fact("").words() }
