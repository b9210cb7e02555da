package child

// MemoryOf knows nothing: the system tells the memory of another process through
// libproc alone, which takes cgo.
func MemoryOf(pids ...int) []Memory { return make([]Memory, len(pids)) }
