// Package sampling has the models of extensions answer what MCP servers ask of an
// agent's model.
//
// A server's sampling/createMessage becomes a question to a provider, and its
// answer what MCP wants of an agent. Two kinds of tools meet in it. Those that the
// server sends along are the server's to run: an answer that uses them goes back
// to it, and ends there. Those that extensions offer, as far as the configuration
// names them, are called here, each judged as any call is, and the model is asked
// again with what they said.
//
// An Answerer is the gate's Sampler: whether it is asked at all, and whether what
// the server wants may go on, has been decided before.
package sampling
