// Package wire reads and writes the messages on the pipes between ThoughtGate and the
// programs around it.
//
// A [Framing] finds where a message ends: lines, Content-Length headers, or a 4-byte
// length. [Read] parses an MCP message: one strict reader looks at each line once and says
// what it is. Package rpc matches requests and answers on top of this, for the programs that
// ThoughtGate itself talks to.
//
// # The strict reader
//
// If two programs read the same bytes differently, one of them can be fooled: if the gate
// sees the tool "read" where the server sees the tool "delete", the gate guards nothing.
// JSON leaves much to its readers (duplicate members, case, lone surrogates, huge
// numbers, line ends), so Read refuses every line on which readers in use are known to
// differ. It does not change what it accepts: it reports the spans of the members that
// decide what is done, and the line is forwarded byte for byte.
//
// # Memory
//
// A peer may be hostile. No message is longer than [MaxMessage]; the rest of a longer one
// is discarded as it arrives. Nesting, members of an object, and whatever waits for an
// answer are bounded as well. Buffers start small, grow with what is read, and are
// released after a large message.
package wire

const (
	// MaxMessage is the maximum length of a message without its framing, in bytes.
	MaxMessage = 10 << 20

	// MaxDepth is the maximum number of objects and arrays open at once in a message.
	MaxDepth = 1000

	// MaxMembers is the maximum number of members of one object. Each name must be
	// remembered until the object ends, to detect duplicates.
	MaxMembers = 1 << 16

	// MaxID is the maximum length of a string id, in bytes of UTF-8.
	MaxID = 1 << 10

	// MaxMethod is the maximum length of a method name, in bytes.
	MaxMethod = 1 << 10
)
