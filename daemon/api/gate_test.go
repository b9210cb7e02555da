package api

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What attaches says what it is: its id can't be guessed, and neither the name of the agents' own
// tools nor that of an extension stands for a server that somebody configured.
func TestCheckAttach(t *testing.T) {
	server := &pb.AttachRequest{Protocol: client.Protocol, Attachment: strings.Repeat("a", 32), Server: "files", Command: []string{"files"}, Executable: "/bin/files"}
	tools := &pb.AttachRequest{Protocol: client.Protocol, Attachment: strings.Repeat("a", 32), Server: offer.ID("notes"), Extension: "notes"}
	remote := &pb.AttachRequest{Protocol: client.Protocol, Attachment: strings.Repeat("a", 32), Server: "cloud", Remote: true, From: "/p/.mcp.json"}
	for name, test := range map[string]struct {
		from   *pb.AttachRequest
		change func(*pb.AttachRequest)
		want   error
	}{
		"a server":                        {server, func(*pb.AttachRequest) {}, nil},
		"the tools of an extension":       {tools, func(*pb.AttachRequest) {}, nil},
		"a server behind an address":      {remote, func(*pb.AttachRequest) {}, nil},
		"an address and a command":        {remote, func(r *pb.AttachRequest) { r.Command = []string{"files"} }, gate.ErrInvalid},
		"an address and a program":        {remote, func(r *pb.AttachRequest) { r.Executable = "/bin/files" }, gate.ErrInvalid},
		"an address and an extension":     {tools, func(r *pb.AttachRequest) { r.Remote = true }, gate.ErrInvalid},
		"a relative path":                 {remote, func(r *pb.AttachRequest) { r.From = ".mcp.json" }, gate.ErrInvalid},
		"another protocol":                {server, func(r *pb.AttachRequest) { r.Protocol++ }, gate.ErrVersion},
		"a short id":                      {server, func(r *pb.AttachRequest) { r.Attachment = strings.Repeat("a", 15) }, gate.ErrInvalid},
		"a long id":                       {server, func(r *pb.AttachRequest) { r.Attachment = strings.Repeat("a", maxID+1) }, gate.ErrInvalid},
		"no server":                       {server, func(r *pb.AttachRequest) { r.Server = "" }, gate.ErrInvalid},
		"a long name":                     {server, func(r *pb.AttachRequest) { r.Server = strings.Repeat("a", maxID+1) }, gate.ErrInvalid},
		"the agents' own tools":           {server, func(r *pb.AttachRequest) { r.Server = "agent" }, gate.ErrInvalid},
		"an extension and another server": {tools, func(r *pb.AttachRequest) { r.Server = "files" }, gate.ErrInvalid},
		"an extension and a command":      {tools, func(r *pb.AttachRequest) { r.Command = []string{"files"} }, gate.ErrInvalid},
		"an extension and a program":      {tools, func(r *pb.AttachRequest) { r.Executable = "/bin/files" }, gate.ErrInvalid},
		"an extension of a project":       {tools, func(r *pb.AttachRequest) { r.From = "/p/.mcp.json" }, gate.ErrInvalid},
	} {
		req := proto.CloneOf(test.from)
		test.change(req)
		if err := checkAttach(req); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}
