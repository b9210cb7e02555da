package child

// Memory is what a program and all that it has started take.
type Memory struct {
	Bytes uint64 // 0: not known
	Twice bool   // what several of them share is counted for each, since the system does not say more
}
