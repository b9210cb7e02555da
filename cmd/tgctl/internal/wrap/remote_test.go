package wrap

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The daemon is told all that is known of a server behind an address.
func TestRemoteServer(t *testing.T) {
	got := remoteServer(agentconf.Remote{
		Server: "s", Address: "a", Transport: agentconf.SSE, Headers: []agentconf.Header{{Name: "n", Template: "t", Variable: "v", Optional: true}},
		Helper: []string{"h"}, From: "/f", Login: true, Syntax: "shell", Own: map[string]string{"k": "v"},
	})
	want := &pb.RemoteServer{
		Server: "s", Address: "a", Transport: "sse", Headers: []*pb.RemoteHeader{{Name: "n", Template: "t", Variable: "v", Optional: true}},
		Helper: []string{"h"}, From: "/f", Login: true, Syntax: "shell", Own: map[string]string{"k": "v"},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
