// Package oneproc limits the process that imports it to one processor, before the packages that
// need anything of their own are initialized: it depends on nothing, and those are initialized
// first. Later, the memory that the runtime has given to the other processors is lost, a third
// of what a tg-shim has.
package oneproc

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
