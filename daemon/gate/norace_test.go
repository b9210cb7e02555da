//go:build !race

package gate

// room is what two measurements of allocations may differ by: less than one that each
// call makes.
const room = 0.5
