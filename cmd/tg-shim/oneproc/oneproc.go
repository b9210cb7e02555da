// Package oneproc limits the process that imports it to one processor. It imports only runtime, so
// Go initializes it before packages that import more. Later, the memory that they have taken on
// other processors would be lost: a third of that of a tg-shim.
package oneproc

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
