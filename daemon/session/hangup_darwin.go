package session

// hangUpMarked does nothing: without pidfds a stranger could be hit that was given
// an old number. The agent's servers end all the same, with their shims.
func hangUpMarked(string, int, map[int]bool) int { return 0 }
