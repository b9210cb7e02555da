package sock

// receiveFlags are none: what is received is open over an exec at first.
const receiveFlags = 0
