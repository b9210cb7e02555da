package wire

// coarsen does nothing: this system chooses the size of its pages itself.
func coarsen([]byte) {}
