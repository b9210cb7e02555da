package extension_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	client "github.com/thoughtgate/thoughtgated/client/extension"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// playProtobuf is an extension with the protobuf wire protocol. It modifies calls, unless its
// mode is to send a message that is too long or invalid.
func playProtobuf() int {
	var host *client.Host
	mark := func(raw json.RawMessage) (client.Answer, error) {
		switch {
		case slices.Contains(os.Args, "too-long"):
			os.Stdout.Write([]byte{0x00, 0xa0, 0x00, 0x01}) // 10 MiB and one byte
		case slices.Contains(os.Args, "garbage"):
			os.Stdout.Write([]byte{0, 0, 0, 2, 0xff, 0xff})
		}
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &members); err != nil {
			return client.Answer{}, err
		}
		members["seen_by"] = json.RawMessage(fmt.Sprintf("%q", host.Name()))
		with, err := json.Marshal(members)
		return client.Modify(with), err
	}
	err := client.Serve(context.Background(), client.Handler{
		Start:  func(_ context.Context, h *client.Host) error { host = h; return nil },
		Before: func(_ context.Context, call *client.Call) (client.Answer, error) { return mark(call.Arguments) },
		After: func(_ context.Context, _ *client.Call, result json.RawMessage) (client.Answer, error) {
			return mark(result)
		},
		Tools: []client.Tool{{
			Name: "remember", Description: "Remembers", InputSchema: json.RawMessage(`{"type":"object"}`),
			Call: func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
				if _, err := host.Remember(ctx, string(input), nil, nil); err != nil {
					return client.Text(err.Error()), nil
				}
				all, err := host.Recall(ctx, client.Query{})
				if err != nil {
					return nil, err
				}
				return client.Text(fmt.Sprint(len(all), " ", all[0].Content)), nil
			},
		}},
		Commands: map[string]client.Command{"say": func(_ context.Context, out *client.Output, args []string) (int, error) {
			fmt.Fprint(out, strings.Join(args, " "))
			return 3, nil
		}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const protobuf = "wire: protobuf\nhooks: {before: {}, after: {}}\nrestart: {first: 10ms, most: 20ms}\n"

// The protobuf wire protocol from end to end.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x", Modes: []string{"protobuf"}, Manifest: protobuf})
	c := call(t, "files", "write_file", `{"n":1.50}`)
	if got := h.Before(t.Context(), c); got.Move != gate.Forward || string(got.Changed) != `{"n":1.50,"seen_by":"x"}` {
		t.Errorf("before: %+v, %s", got, got.Changed)
	}
	if got := h.After(t.Context(), c, []byte(`{"content":[]}`)); got.Move != gate.Forward || string(got.Changed) != `{"content":[],"seen_by":"x"}` {
		t.Errorf("after: %+v, %s", got, got.Changed)
	}
	raw, err := h.CallTool(t.Context(), "x", "remember", []byte(`{"a":1}`))
	if err != nil || !bytes.Contains(raw, []byte(`1 {\"a\":1}`)) {
		t.Errorf("a tool that remembers: %s, %v", raw, err)
	}
	var said []string
	exit, err := h.Invoke(t.Context(), "x", "say", []string{"good", "day"}, func(e protocol.Event) { said = append(said, e.Content) })
	if err != nil || exit != 3 || !strings.Contains(strings.Join(said, ""), "good day") {
		t.Errorf("a command: %q, %d, %v", said, exit, err)
	}
	h.install(fake.Extension{Name: "bare", Modes: []string{"protobuf"}, Permissions: []string{"tools", "hooks.before", "hooks.after"}, Manifest: protobuf})
	raw, err = h.CallTool(t.Context(), "bare", "remember", []byte(`{}`))
	if err != nil || !bytes.Contains(raw, []byte("permission denied: memory.write required")) {
		t.Errorf("a tool that may not remember: %s, %v", raw, err)
	}
	v, err := h.Get("x")
	if err != nil || v.Status.State != supervise.Running || v.Strays != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := h.Remove(t.Context(), "x", true, extension.Actor{}); err != nil {
		t.Error(err)
	}
}

func TestProtobufThatMisbehaves(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"too-long", "garbage"} {
		h := newFixture(t).start()
		h.install(fake.Extension{Name: "x", Modes: []string{"protobuf", mode}, Manifest: protobuf})
		got := h.Before(t.Context(), call(t, "files", "write_file", `{}`))
		if got.Move != gate.Deny || !strings.Contains(got.Reason, "it ended before it answered") {
			t.Errorf("%s: %+v", mode, got)
		}
		h.until("it is started again", func() bool { v, _ := h.Get("x"); return v.Status.Restarts > 0 })
	}
}
