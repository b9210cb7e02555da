// Package rpc talks to the programs that ThoughtGate itself starts, over a pair of pipes:
// headless agents and extensions.
//
// A [Dialect] encodes and decodes messages, as strictly as package wire reads those of MCP. A
// [Conn] matches requests and answers in both directions, and bounds what waits for them.
package rpc
