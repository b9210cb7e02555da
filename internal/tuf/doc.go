// Package tuf verifies and signs the metadata of The Update Framework, which say what the
// policy of a fleet is. Whoever carries them is not trusted.
//
// It reads the part of the specification that a fleet needs, and refuses the rest: keys are
// ed25519, every key has the id that is computed from it, targets have a SHA-256, and a role is
// delegated by the top-level targets to the keys of one group, by path. [Trusted] is what a
// client has verified so far. It accepts a new root only if the keys of the root before and its
// own have signed it, other metadata only in versions that are not lower than before, and all of
// one publication together. What a key has signed is forgotten when a root replaces the key, so
// that the owner of a fleet can return from versions that a thief has raised.
//
// All times are handed in. Metadata are read by [rawjson]: what two readers could read
// differently is refused.
package tuf
