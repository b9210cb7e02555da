package main

import (
	"strings"
	"testing"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A call of a tool that is on no list asks a person once the server has listed all of its
// tools; a listed tool is called by its exact name or not at all.
func TestToolsThatNoListHas(t *testing.T) {
	t.Parallel()
	d := startDesk(t, strings.Replace(forwardAll, "  rules:\n", "  rules:\n    - {when: unlisted, action: approve, description: \"server {by} lists no tool of this name\"}\n", 1))
	page := func(id, members string) {
		d.crosses(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`)
		d.returns(`{"jsonrpc":"2.0","id":` + id + `,"result":{` + members + `}}`)
	}
	page(`"l1"`, `"tools":[{"name":"add","inputSchema":{}}],"nextCursor":"2"`)
	d.agent(calls("other", "1")...)
	d.serverReads(calls("other", "1")...)
	page(`"l2"`, `"tools":[{"name":"sub","inputSchema":{}}]`)
	for i, tool := range []string{"add", "sub"} {
		id := []string{"2", "3"}[i]
		d.agent(calls(tool, id)...)
		d.serverReads(calls(tool, id)...)
	}
	d.agent(calls("other", "4")...)
	if q := d.decide("tools/call", pb.Answer_ANSWER_DENY); q.GetTool() != "other" || !strings.Contains(q.GetReason(), "server x lists no tool of this name") {
		t.Errorf("the question is %v", q)
	}
	if got := d.next(); !strings.Contains(got, `"id":4,`) || !strings.Contains(got, "Not executed.") {
		t.Errorf("after a no: %s", got)
	}
	d.agent(calls("Add", "5")...)
	if got := d.next(); !strings.Contains(got, `"id":5,`) || !strings.Contains(got, `Not executed. Denied by rule built in: names: its server lists no tool with this name, but \"add\": use the listed name.`) {
		t.Errorf("by another case: %s", got)
	}
	d.questions(0)
}
