package consoletest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// lives are the records about a call, as kind and verdict, that the daemon may write.
var lives = [][]string{
	{"call forward", "outcome ok"}, {"call forward", "outcome tool_error"}, {"call forward"}, {"call deny"},
	{"call hold", "decision approved", "call forward", "outcome ok"}, {"call hold", "decision rejected", "call deny"},
	{"call hold", "decision expired", "call deny"}, {"call hold", "decision withdrawn"}, {"call hold"},
	{"call hold", "call park", "decision approved"}, {"call hold", "call park"}, {"call forward", "call deny"},
	{"call hold", "call hold", "decision approved", "call forward"}, {"hook changed", "call forward", "outcome ok"},
}

// DrawLog draws a log of calls within the last hour, whose records are mixed. Some calls are repeated under the
// same question, and some lines are messages of the protocol or canaries.
func DrawLog(t *rapid.T) []record.Record {
	records := []record.Record{{Kind: record.KindLog, Log: "5f3a"}}
	var left [][]record.Record
	for i := range rapid.IntRange(1, 25).Draw(t, "calls") {
		attachment, question := rapid.SampledFrom([]string{"t-1", "t-2"}).Draw(t, "attachment"), fmt.Sprint("A-", rapid.IntRange(1, 40).Draw(t, "question"))
		var life []record.Record
		for _, word := range rapid.SampledFrom(lives).Draw(t, "life") {
			kind, verdict, _ := strings.Cut(word, " ")
			r := record.Record{
				Kind: record.Kind(kind), Verdict: verdict, Attachment: attachment, Call: uint64(i + 1), Server: "files", Direction: "agent_to_server",
				Method: "tools/call", Tool: rapid.SampledFrom([]string{"write", "read"}).Draw(t, "tool"), MessageID: fmt.Sprint(i),
			}
			if verdict != "ok" && kind != "outcome" && len(life) > 0 || verdict == record.Hold {
				r.Approval = question
			}
			life = append(life, r)
		}
		left = append(left, life)
	}
	for len(left) > 0 {
		i := rapid.IntRange(0, len(left)-1).Draw(t, "next")
		records = append(records, left[i][0])
		if left[i] = left[i][1:]; len(left[i]) == 0 {
			left = append(left[:i], left[i+1:]...)
		}
		switch rapid.IntRange(0, 5).Draw(t, "besides") {
		case 0:
			records = append(records, record.Record{Kind: record.KindCall, Verdict: "forward", Attachment: "t-1", Call: 9000 + uint64(len(records)), Direction: "server_to_agent", Method: "tools/list"})
		case 1:
			records = append(records, record.Record{Kind: record.KindCall, Verdict: "deny", Server: record.CanaryServer, Attachment: "t-9", Call: uint64(len(records)), Direction: "agent_to_server", Method: "tools/call"})
		}
	}
	for i := range records {
		records[i].Time = Noon.Add(-time.Duration(len(records)-i) * time.Second)
	}
	return records
}

// Exported counts calls in what `audit export` wrote, in the plainest way: by the last verdict of each.
func Exported(t *rapid.T, jsonl string) (forwarded, held, denied, parked int) {
	last := map[string]string{}
	for line := range strings.Lines(jsonl) {
		var r struct {
			Kind, Attachment, Server, Method, Verdict string
			Call                                      int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Kind == "call" && r.Method == "tools/call" && r.Server != record.CanaryServer {
			last[fmt.Sprint(r.Attachment, " ", r.Call)] = r.Verdict
		}
	}
	for _, verdict := range last {
		switch verdict {
		case "forward":
			forwarded++
		case "deny":
			denied++
		case "park":
			parked++
			held++
		default:
			held++
		}
	}
	return
}
