//go:build race

package gate

// room is by how much two measurements of allocations may differ: less than one per call,
// except under the race detector, where pools drop items at random.
const room = 3
