// Quota is an extension that limits how often each tool is called in an hour.
//
// It uses the protobuf wire protocol and client/extension, the package for authors of
// extensions, and most of that package's features. It is meant as an example: limits.go parses
// the configuration, window.go counts, and this file handles the gate's requests.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/client/extension"
)

func main() {
	if err := extension.Serve(context.Background(), newQuota(time.Now).handler()); err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

// called is the tag of the records of calls.
const called = "call"

// quota is the state of the handler.
type quota struct {
	now    func() time.Time
	host   *extension.Host // set by start
	window window
}

func newQuota(now func() time.Time) *quota {
	return &quota{now: now, window: window{calls: map[string][]time.Time{}}}
}

func (q *quota) handler() extension.Handler {
	return extension.Handler{
		Start:  q.start,
		Before: q.before,
		Tools: []extension.Tool{{
			Name:        "quota_left",
			Description: "Says how many more calls of each tool this hour has room for.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"tool":{"type":"string","description":"as server/tool; all when left out"}},"additionalProperties":false}`),
			Call:        q.left,
		}},
		Commands:      map[string]extension.Command{"show": q.show},
		ConfigChanged: q.changed,
	}
}

// start parses the configuration and loads the calls of the last hour from before a restart.
func (q *quota) start(ctx context.Context, host *extension.Host) error {
	q.host = host
	limits, err := parseLimits(host.Config("limit"), host.Config("limits"))
	if err != nil {
		return err
	}
	q.window.set(limits)
	if err := q.recall(ctx); err != nil {
		return err
	}
	return host.Subscribe(ctx)
}

// page is the number of records in one query, newest first.
const page = 1000

// recall counts the remembered calls of the last hour. It may miss calls in the millisecond at
// which one page ends and the next begins.
func (q *quota) recall(ctx context.Context) error {
	asked := extension.Query{TagPrefix: called, Since: q.now().Add(-hour), Limit: page}
	for {
		records, err := q.host.Recall(ctx, asked)
		if err != nil {
			return err
		}
		for _, r := range records {
			q.window.recall(r.Content, time.UnixMilli(r.TimestampMs))
		}
		if len(records) < page {
			return nil
		}
		asked.Until = time.UnixMilli(records[0].TimestampMs - 1)
	}
}

func (q *quota) before(ctx context.Context, call *extension.Call) (extension.Answer, error) {
	tool := call.Server + "/" + call.Tool
	limit, again, ok := q.window.take(tool, q.now())
	if !ok && limit == 0 {
		return extension.Block(fmt.Sprintf("the quota of %s is no call at all", tool)), nil
	}
	if !ok {
		return extension.Block(fmt.Sprintf("the quota of %s is %d calls in an hour, and they are used up; the next is free at %s",
			tool, limit, again.Format("15:04:05"))), nil
	}
	if _, err := q.host.Remember(ctx, tool, []string{called}, nil); err != nil {
		// The call counts while this program runs. It is not denied because of this error.
		fmt.Fprintf(os.Stderr, "quota: a call of %s is forgotten at the next start: %v\n", tool, err)
	}
	return extension.Continue(), nil
}

// left implements the tool quota_left.
func (q *quota) left(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
	var asked struct{ Tool string }
	if err := json.Unmarshal(input, &asked); err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	left := map[string]int{}
	text := ""
	for _, u := range q.window.used(q.now()) {
		if asked.Tool == "" || asked.Tool == u.tool {
			left[u.tool] = u.limit - u.calls
			text += fmt.Sprintf("%s: %d of %d calls left\n", u.tool, u.limit-u.calls, u.limit)
		}
	}
	if asked.Tool != "" && text == "" {
		limit := q.window.limit(asked.Tool)
		left[asked.Tool] = limit
		text = fmt.Sprintf("%s: %d of %d calls left\n", asked.Tool, limit, limit)
	}
	if text == "" {
		text = "no tool was called in the last hour\n"
	}
	return extension.TextAnd(text, map[string]any{"left": left})
}

// show implements the command show.
func (q *quota) show(_ context.Context, out *extension.Output, args []string) (int, error) {
	if len(args) > 0 {
		return 2, out.Notice("usage: tgctl ext run quota show")
	}
	used := q.window.used(q.now())
	task, err := out.Task("Counting the calls of the last hour")
	if err != nil {
		return 0, err
	}
	for i, u := range used {
		if _, err := fmt.Fprintf(out, "%-40s %4d of %4d\n", u.tool, u.calls, u.limit); err != nil {
			return 0, err
		}
		if err := task.Update(uint64(i+1), uint64(len(used))); err != nil {
			return 0, err
		}
	}
	if len(used) == 0 {
		if err := out.Notice("no tool was called in the last hour"); err != nil {
			return 0, err
		}
	}
	return 0, task.Done(nil)
}

// changed applies a new configuration. If it is invalid, the old one stays in force.
func (q *quota) changed(string, string) {
	limits, err := parseLimits(q.host.Config("limit"), q.host.Config("limits"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "quota: the limits stay as they were:", err)
		return
	}
	q.window.set(limits)
}
