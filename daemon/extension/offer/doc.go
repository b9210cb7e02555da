// Package offer makes of an extension's tools an MCP server that agents can use.
//
// There is no process behind such a server: it stands in the daemon, and a shim
// that was started for it has no child but joins it, as it would join a server
// that sessions share. What an agent says to it has passed the gate like what is
// said to any server, and its lists and results pass it on the way back.
//
//	server := offer.NewServer("notes", extension)
//	member := server.Join(deliver)
//	err := member.Write(ctx, line) // a line of the agent; what answers it is delivered
//	member.Leave()
//
// It speaks the legacy revisions of MCP and the modern one, has tools and nothing
// else, and tells its members when the tools are others than they were.
package offer
