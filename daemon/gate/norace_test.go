//go:build !race

package gate

// room is by how much two measurements of allocations may differ: less than one per call.
const room = 0.5
