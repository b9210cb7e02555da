// Package mcp describes the Model Context Protocol to ThoughtGate: how each message is
// treated, what it is about, and how a denial or refusal is written.
// //
// It is one table, keyed by the era of the message (revisions up to 2025-11-25 are
// legacy, 2026-07-28 is modern), its writer, whether it is a request or a notification,
// and its method. The same method means different things in different places: some
// servers run a tools/call without an id, a ping is a request of the legacy era only, and
// a server that sends prompts/get asks for something that only an agent may ask for.
// //
// The package decides nothing about permissions. It says which messages must be judged,
// and by what name.
package mcp
