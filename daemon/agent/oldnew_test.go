package agent

import (
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/rawjson/old"
	oldagent "github.com/thoughtgate/thoughtgated/internal/rawjson/old/agent"
)

func TestAgentOldNew(t *testing.T) {
	old.Compare(t, "permission", func(raw []byte) (any, error) { return oldagent.Permission(raw) }, func(raw []byte) (any, error) {
		kind, call, options, err := readPermission(raw)
		return fmt.Sprintf("%q %s %v", kind, call, options), err
	})
	old.Compare(t, "permission", func(raw []byte) (any, error) { return oldagent.Bare(raw) }, func(raw []byte) (any, error) {
		out, err := bare(raw)
		return string(out), err
	})
	o := &run{request: Request{Cwd: "/x"}}
	old.Compare(t, "start", func(raw []byte) (any, error) { return oldagent.Start(raw) }, func(raw []byte) (any, error) {
		a := rawjson.Read(raw)
		spec, most, err := o.toStart(a)
		return fmt.Sprintf("%q %q %v %d", spec.Command, spec.Args, len(spec.Env), most), err
	})
}
