package mcp

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// revisions are the revisions that the tables cover, oldest first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// Revisions returns the revisions of MCP that the tables cover, oldest first.
func Revisions() []string { return slices.Clone(revisions) }

// KnownRevision reports whether the tables cover the revision that a request names. A
// request that names none, as in the legacy era, is covered.
func KnownRevision(e *wire.Envelope, line []byte) bool {
	if !e.Version.Present() {
		return true
	}
	version, err := wire.Unquote(e.Version, line)
	return err == nil && slices.Contains(revisions, version)
}

// Supported returns the revisions in the result of a server/discover that the tables
// cover. It returns nil if there are none or the result can't be read.
func Supported(e *wire.Envelope, line []byte) []string {
	if !e.Result.Present() {
		return nil
	}
	array, err := wire.Member(line, e.Result, "supportedVersions")
	if err != nil || !array.Present() {
		return nil
	}
	items, err := wire.Elements(line, array)
	if err != nil {
		return nil
	}
	var both []string
	for _, item := range items {
		if version, err := wire.Unquote(item, line); err == nil && slices.Contains(revisions, version) {
			both = append(both, version)
		}
	}
	return both
}
