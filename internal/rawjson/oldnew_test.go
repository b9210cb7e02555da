package rawjson_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/internal/rawjson/old"
	oldprotocol "github.com/thoughtgate/thoughtgated/internal/rawjson/old/protocol"
	oldprovider "github.com/thoughtgate/thoughtgated/internal/rawjson/old/provider"
)

func TestProtocolOldNew(t *testing.T) {
	m := &manifest.Manifest{Permissions: []manifest.Permission{"tools", "providers", "memory.read"}}
	old.Compare(t, "greeting", func(raw []byte) (any, error) {
		d, err := oldprotocol.ReadGreeting(raw, m)
		return fmt.Sprintf("%+v", d), err
	}, func(raw []byte) (any, error) {
		d, err := protocol.ReadGreeting(raw, m)
		return fmt.Sprintf("%+v", d), err
	})
	old.Compare(t, "answer", func(raw []byte) (any, error) {
		a, err := oldprotocol.ReadAnswer(raw, "arguments")
		return fmt.Sprintf("%+v", a), err
	}, func(raw []byte) (any, error) {
		a, err := protocol.ReadAnswer(raw, "arguments")
		return fmt.Sprintf("%+v", a), err
	})
	event := func(method, kind string) {
		old.Compare(t, kind, func(raw []byte) (any, error) {
			e, ok, err := oldprotocol.ReadEvent(method, raw, "r1")
			return fmt.Sprintf("%+v %v", e, ok), err
		}, func(raw []byte) (any, error) {
			e, ok, err := protocol.ReadEvent(method, raw, "r1")
			return fmt.Sprintf("%+v %v", e, ok), err
		})
	}
	event("command.output", "output")
	for _, method := range []string{"task.start", "task.update", "task.log", "task.done"} {
		event(method, "task")
	}
	old.Compare(t, "exit", func(raw []byte) (any, error) { n, err := oldprotocol.ReadExit(raw); return n, err },
		func(raw []byte) (any, error) { n, err := protocol.ReadExit(raw); return n, err })
	old.Compare(t, "append", func(raw []byte) (any, error) {
		n, err := oldprotocol.ReadAppend(raw)
		return fmt.Sprintf("%+v", n), err
	},
		func(raw []byte) (any, error) { n, err := protocol.ReadAppend(raw); return fmt.Sprintf("%+v", n), err })
	old.Compare(t, "query", func(raw []byte) (any, error) { n, err := oldprotocol.ReadQuery(raw); return fmt.Sprintf("%+v", n), err },
		func(raw []byte) (any, error) { n, err := protocol.ReadQuery(raw); return fmt.Sprintf("%+v", n), err })
	old.Compare(t, "setting", func(raw []byte) (any, error) { k, v, err := oldprotocol.ReadSetting(raw); return k + v, err },
		func(raw []byte) (any, error) { k, v, err := protocol.ReadSetting(raw); return k + v, err })
	old.Compare(t, "setting", func(raw []byte) (any, error) { k, err := oldprotocol.ReadKey(raw); return k, err },
		func(raw []byte) (any, error) { k, err := protocol.ReadKey(raw); return k, err })
	old.Compare(t, "toolresult", func(raw []byte) (any, error) { k, err := oldprotocol.CheckResult(raw); return string(k), err },
		func(raw []byte) (any, error) { k, err := protocol.CheckResult(raw); return string(k), err })
	old.Compare(t, "output", func(raw []byte) (any, error) { k, err := oldprotocol.StreamOf(raw); return k, err },
		func(raw []byte) (any, error) { k, err := protocol.StreamOf(raw); return k, err })
}

func TestProviderOldNew(t *testing.T) {
	old.Compare(t, "result", func(raw []byte) (any, error) { r, err := oldprovider.ReadStreamed(raw); return plain(r), err },
		func(raw []byte) (any, error) { r, err := provider.ReadStreamed(raw); return plain(r), err })
	old.Compare(t, "event", func(raw []byte) (any, error) { r, err := oldprovider.ReadEvent(raw); return plain(r), err },
		func(raw []byte) (any, error) { r, err := provider.ReadEvent(raw); return plain(r), err })
}

// plain is v as JSON, in which slices of bytes are what they hold.
func plain(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
