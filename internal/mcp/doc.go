// Package mcp is what ThoughtGate knows of the Model Context Protocol: what is
// done with each message, what a message is about, and how a refusal is put.
//
// All of it is one table, keyed by the era of the message (revisions up to
// 2025-11-25 are legacy, 2026-07-28 is modern), by who wrote it, by whether it
// is a request or a notification, and by its method. The same name means
// different things elsewhere in that table: a tools/call without an id is run by
// some servers, a ping is a request of the legacy era only, and a server that
// asks for prompts/get asks for something that only an agent may ask for.
//
// The package decides nothing about rights. It says which messages have to be
// judged, and by what name.
package mcp
