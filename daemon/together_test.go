package daemon_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// together is a message with as many submissions as there are tools.
func together(first uint64, tools ...string) *pb.Up {
	var all []*pb.Up
	for i, tool := range tools {
		all = append(all, &pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{
			Seq: first + uint64(i), Direction: pb.Direction_DIRECTION_AGENT_TO_SERVER,
			Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, first+uint64(i), tool),
		}}})
	}
	up := all[0]
	up.More = all[1:]
	return up
}

// joinTogether joins as a shim that takes several messages in one, or not.
func (h *home) joinTogether(t *testing.T, takes bool) *client.Attachment {
	t.Helper()
	return h.attachWith(t, &pb.Hello{
		Protocol: client.Protocol, Attachment: attachment, Reattach: true, Server: "files", Command: []string{"cat"}, Cwd: "/", Together: takes,
	})
}

// What is submitted in one message is judged in its order, each line by itself, and
// answered in fewer messages to a shim that can read them, and one by one to another.
func TestSubmittedTogether(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	for _, takes := range []bool{true, false} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			a := h.joinTogether(t, takes)
			defer a.Close()
			most := int(a.Welcome().GetTogether())
			if most == 0 {
				t.Fatal("the daemon takes one message at a time")
			}
			first, tools := uint64(1), []string{"read_file", "delete_file", "send_mail", "write_file"}
			if !takes { // other numbers: the attachment is the same
				first = 100
			}
			for len(tools) <= most {
				tools = append(tools, "read_file")
			}
			if err := a.Send(together(first, tools...)); err != nil {
				t.Fatal(err)
			}
			var got []*pb.Verdict
			messages := 0
			for len(got) < len(tools) {
				down, err := a.Recv()
				if err != nil {
					t.Fatal(err)
				}
				messages++
				if !takes && len(down.GetMore()) > 0 {
					t.Fatal("a message with more for a shim that takes none")
				}
				for _, d := range append([]*pb.Down{down}, down.GetMore()...) {
					got = append(got, d.GetVerdict())
				}
			}
			want := map[string]pb.Action{"delete_file": pb.Action_ACTION_DENY, "send_mail": pb.Action_ACTION_PENDING}
			for i, v := range got {
				action, ok := want[tools[i]]
				if !ok {
					action = pb.Action_ACTION_FORWARD
				}
				if v.GetSeq() != first+uint64(i) || v.GetAction() != action {
					t.Errorf("verdict %d is %d: %v, want %v", i, v.GetSeq(), v.GetAction(), action)
				}
			}
			if takes && messages == len(tools) {
				t.Errorf("%d verdicts came in as many messages", messages)
			}
		})
	}
}

// What may not be said with others ends the stream, and nothing of it is judged
// that came behind.
func TestNotSaidTogether(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	for name, spoil := range map[string]func(*pb.Up){
		"within":  func(up *pb.Up) { up.More[1].More = []*pb.Up{together(9, "read_file")} },
		"cancel":  func(up *pb.Up) { up.More[1].Msg = &pb.Up_Cancel{Cancel: &pb.Cancel{Seq: 1}} },
		"hello":   func(up *pb.Up) { up.More[1].Msg = &pb.Up_Hello{Hello: &pb.Hello{}} },
		"nothing": func(up *pb.Up) { up.More[1].Msg = nil },
		"many":    func(up *pb.Up) { up.More = slices.Repeat(up.More, 64) },
	} {
		t.Run(name, func(t *testing.T) {
			a := h.joinTogether(t, true)
			defer a.Close()
			up := together(1, "read_file", "read_file", "read_file", "read_file")
			spoil(up)
			if err := a.Send(up); err != nil {
				t.Fatal(err)
			}
			for {
				down, err := a.Recv()
				if err != nil {
					if !errors.Is(client.FromStatus(err), client.ErrInvalid) {
						t.Errorf("got %v, want an error that says invalid", err)
					}
					return
				}
				for _, d := range append([]*pb.Down{down}, down.GetMore()...) {
					if d.GetVerdict().GetSeq() > 2 {
						t.Errorf("verdict %d on what came behind", d.GetVerdict().GetSeq())
					}
				}
			}
		})
	}
}
