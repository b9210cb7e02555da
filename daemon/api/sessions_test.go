package api

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What a wrap says about servers behind an address is taken over completely, within limits. No error
// has an address in it.
func TestRemotesOf(t *testing.T) {
	good := func() *pb.RemoteServer {
		return &pb.RemoteServer{
			Server: "s", Address: "https://x.test/s3cr3t", Transport: "sse", Headers: []*pb.RemoteHeader{{Name: "n", Template: "t", Variable: "v", Optional: true}},
			Helper: []string{"h"}, From: "/f", Login: true, Syntax: "shell", Own: map[string]string{"k": "v"},
		}
	}
	want := agentconf.Remote{
		Server: "s", Address: "https://x.test/s3cr3t", Transport: agentconf.SSE, Headers: []agentconf.Header{{Name: "n", Template: "t", Variable: "v", Optional: true}},
		Helper: []string{"h"}, From: "/f", Login: true, Syntax: "shell", Own: map[string]string{"k": "v"},
	}
	if got, err := remotesOf([]*pb.RemoteServer{good()}); err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*pb.RemoteServer){
		"no name":         func(r *pb.RemoteServer) { r.Server = "" },
		"a relative file": func(r *pb.RemoteServer) { r.From = "f" },
		"too long":        func(r *pb.RemoteServer) { r.Address += strings.Repeat("x", maxRemoteBytes) },
	} {
		r := good()
		change(r)
		if _, err := remotesOf([]*pb.RemoteServer{r}); !errors.Is(err, gate.ErrInvalid) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var many []*pb.RemoteServer
	for range maxRemotes + 1 {
		many = append(many, good())
	}
	if _, err := remotesOf(many); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("too many: %v", err)
	}
}
