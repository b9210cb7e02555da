package facts

// lookupWithoutLinks uses a system call that only Linux has.
func lookupWithoutLinks(string) (found, *inode) { return isUnclear, nil }
