package main

// pipeBuf is how long a line may be, its end included, that a pipe takes whole
// or not at all (POSIX write(2), PIPE_BUF).
const pipeBuf = 4096
