//go:build race

package gate

// room is what two measurements of allocations may differ by: less than one that each
// call makes, but under the race detector, where pools forget at random.
const room = 3
