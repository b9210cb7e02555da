package sock

// receiveFlags is empty: received descriptors are not close-on-exec at first.
const receiveFlags = 0
