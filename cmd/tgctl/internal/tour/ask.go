package tour

import (
	"context"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// ask asks the person to answer the question. Without a terminal it approves it itself.
func (t *tour) ask(ctx context.Context, q *pb.Approval) (answer pb.Answer, word string, err error) {
	t.print("\n   held as question %s: %s", display.Name(q.GetId()), display.Text(q.GetReason()))
	t.print("   Outside the demo you answer from another terminal:")
	t.print("       tgctl approvals show %[1]s\n       tgctl approvals approve %[1]s\n", display.Name(q.GetId()))
	if !t.out.InTerminal {
		t.print("   Stdin is not a terminal, so the demo approves it for you.\n")
		return pb.Answer_ANSWER_APPROVE, "approved", nil
	}
	for {
		fmt.Fprintf(t.out.Out, "   Approve it? [y/n] ")
		reply, err := t.out.ReadTyped(ctx)
		if err != nil {
			return 0, "", err
		}
		switch strings.ToLower(strings.TrimSpace(reply)) {
		case "y", "yes":
			t.print("")
			return pb.Answer_ANSWER_APPROVE, "approved", nil
		case "n", "no":
			t.print("")
			return pb.Answer_ANSWER_DENY, "denied", nil
		}
	}
}
