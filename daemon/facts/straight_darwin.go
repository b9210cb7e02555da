package facts

// straight uses a system call that only Linux has.
func straight(string) (found, *inode) { return isUnclear, nil }
