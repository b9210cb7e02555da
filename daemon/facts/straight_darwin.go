package facts

// straight is what Linux has a call for.
func straight(string) (found, *inode) { return isUnclear, nil }
