// Package wire reads and writes what travels over pipes between ThoughtGate and
// the programs around it.
//
// It answers three questions, each in a part that is usable without the next.
// Where does a message end? That is a [Framing]: lines, Content-Length headers,
// or a length of four bytes. What is a message? That is [Read] for MCP, where
// one strict reader looks at each line once and says what it is, and a [Dialect]
// for the programs that ThoughtGate talks to itself. Who answers what? That is a
// [Conn].
//
// # The strict reader
//
// Two programs that read the same bytes differently are two programs of which
// one can be fooled: if the gate sees the tool "read" where the server sees the
// tool "delete", the gate guards nothing. JSON leaves much to its readers
// (members that come twice, case, lone surrogates, huge numbers, where a line
// ends), so Read refuses every line on which readers in use are known to
// differ. What it accepts it does not change: it reports where in the line the
// members lie that decide what is done, as spans, and the line goes on
// byte for byte.
//
// # Memory
//
// A peer may be hostile. No message is longer than [MaxMessage]; the rest of a
// longer one is thrown away as it arrives. Nesting, members of an object, and
// whatever waits for an answer are bounded as well. Buffers start small, grow
// with what is read, and are let go after a large message.
package wire

const (
	// MaxMessage is how long a message may be, in bytes, without its framing.
	MaxMessage = 10 << 20

	// MaxDepth is how many objects and arrays may be open at once in a message.
	MaxDepth = 1000

	// MaxMembers is how many members one object of a message may have. Each
	// must be remembered until the object ends, to notice one that comes twice.
	MaxMembers = 1 << 16

	// MaxID is how long a string that is an id may be, in bytes of UTF-8.
	MaxID = 1 << 10

	// MaxMethod is how long the name of a method may be, in bytes.
	MaxMethod = 1 << 10
)
