// Package demo is a minimal agent and a minimal MCP server: tgctl demo shows them, and tgctl
// doctor makes a test call with them. Both speak MCP as any program does and leave all checks
// to the gate between them.
package demo

import (
	"encoding/json"
	"fmt"
)

// protocolVersion is the version of MCP that both use.
const protocolVersion = "2025-11-25"

// Call is a call of a tool.
type Call struct {
	Tool      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// Result is the result of a call.
type Result struct {
	Text    string
	IsError bool
}

// message is a JSON-RPC message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }
