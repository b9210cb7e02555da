package shape

import "time"

// Tool is what a server has said a tool takes. It is not changed; when the
// server says something else, that is another Tool.
type Tool struct {
	Server string
	Launch string // hex SHA-256 over the server's command and its arguments
	Name   string
	Takes  *Shape // of the arguments; nil when Fault says why it isn't known
	Fault  string
}

// Listing is all that a server has listed under one launch.
type Listing struct {
	Server string
	Launch string
	Listed time.Time // last
	Tools  []*Tool
}
