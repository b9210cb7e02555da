package policy

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func TestShow(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
		fill   func(*consoletest.Daemon)
	}{
		{"policy-show", []string{"policy", "show"}, func(f *consoletest.Daemon) { f.Set = consoletest.InDetail() }},
		{"policy-show-default", []string{"policy", "show"}, func(f *consoletest.Daemon) { f.Set = &pb.PolicySet{Profile: "production", Rules: 9} }},
		{"policy-show-json", []string{"policy", "show", "--json"}, func(f *consoletest.Daemon) { f.Set = consoletest.InDetail() }},
	} {
		t.Run(test.golden, func(t *testing.T) {
			f := consoletest.Start(t)
			test.fill(f)
			newConsole(f.Socket).LooksLike(t, test.golden, test.args...)
		})
	}
}
