package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Names of the Agent Client Protocol, and the one version that is supported.
const (
	acpVersion    = 1
	methodUpdate  = "session/update"
	codeNeedsAuth = -32000 // the agent requires its user to log in
)

// acp runs the conversation with an agent that speaks the Agent Client Protocol.
func (o *run) acp(caller context.Context, conn *rpc.Conn) (Result, error) {
	updates := conn.Subscribe(2*maxPendingUpdates, methodUpdate)
	defer updates.Close()
	session, err := o.acpSession(conn)
	if err != nil {
		return Result{}, err
	}
	listening, enough := context.WithCancel(context.Background())
	var listen sync.WaitGroup
	listen.Go(func() { o.listen(listening, updates) })
	raw, err := o.acpPrompt(caller, conn, session)
	enough() // updates from before the answer are still passed on
	listen.Wait()
	if err != nil {
		return Result{}, err
	}
	var answer struct {
		StopReason string `json:"stopReason"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.StopReason == "" {
		return Result{}, errors.New("its answer to the prompt has no stopReason")
	}
	return stopped(answer.StopReason, raw, o.ctx), nil
}

// stopped returns the result of a turn that ended with a stop reason.
func stopped(reason string, raw []byte, ctx context.Context) Result {
	r := Result{Stop: reason, Raw: raw}
	switch cause := context.Cause(ctx); {
	case reason == "end_turn":
	case reason == "cancelled" && errors.Is(cause, errTimeout):
		r.Exit, r.Reason = ExitTimeout, "it was cancelled after its timeout"
	case reason == "cancelled" && errors.Is(cause, gate.ErrNotRunning):
		r.Exit, r.Reason = ExitInternal, daemonEnds
	case reason == "cancelled" && cause != nil:
		r.Exit, r.Reason = ExitCancelled, "cancelled"
	case reason == "refusal":
		r.Exit, r.Reason = ExitFailed, "the agent refused to continue"
	case reason == "max_tokens", reason == "max_turn_requests":
		r.Exit, r.Reason = ExitFailed, fmt.Sprintf("the agent stopped early (%s)", reason)
	default:
		r.Exit, r.Reason = ExitFailed, fmt.Sprintf("the agent stopped: %.100q", reason)
	}
	return r
}

// acpSession performs the handshake with the agent and opens a session with it.
func (o *run) acpSession(conn *rpc.Conn) (id string, err error) {
	raw, err := o.ask(conn, "initialize", map[string]any{
		"protocolVersion": acpVersion,
		"clientCapabilities": map[string]any{
			"fs": map[string]bool{"readTextFile": true, "writeTextFile": true}, "terminal": true,
		},
		"clientInfo": map[string]string{"name": "thoughtgate", "title": "ThoughtGate", "version": o.runs.options.Build},
	})
	if err != nil {
		return "", err
	}
	var hello struct {
		ProtocolVersion int `json:"protocolVersion"`
		AuthMethods     []struct {
			Name string `json:"name"`
		} `json:"authMethods"`
	}
	if err := json.Unmarshal(raw, &hello); err != nil {
		return "", fmt.Errorf("its answer to initialize can't be read: %w", err)
	}
	if hello.ProtocolVersion != acpVersion {
		return "", fmt.Errorf("it uses version %d of the Agent Client Protocol, not %d", hello.ProtocolVersion, acpVersion)
	}
	raw, err = o.ask(conn, "session/new", map[string]any{"cwd": o.request.Cwd, "mcpServers": o.servers})
	var fault *rpc.Fault
	if errors.As(err, &fault) && fault.Code == codeNeedsAuth {
		var ways []string
		for _, m := range hello.AuthMethods {
			ways = append(ways, m.Name)
		}
		return "", fmt.Errorf("it requires a login (%q), which a headless run can't do; log in with the agent itself, or name the variable of its key under pass: %s",
			ways, fault.Message)
	}
	if err != nil {
		return "", err
	}
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(raw, &opened); err != nil || opened.SessionID == "" {
		return "", errors.New("its answer to session/new has no session id")
	}
	return opened.SessionID, nil
}

// ask sends one request. It is cancelled when the run must end.
func (o *run) ask(conn *rpc.Conn, method string, params any) ([]byte, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	raw, err := conn.Call(o.ctx, method, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, described(err))
	}
	return raw, nil
}

// described marks an error that the agent answered with.
func described(err error) error {
	var f *rpc.Fault
	if errors.As(err, &f) {
		return fmt.Errorf("it answered with an error: %w", err)
	}
	return err
}

// acpPrompt sends the prompt and waits for the answer. If the run must end earlier, it cancels
// the turn and gives the agent a moment to answer.
func (o *run) acpPrompt(caller context.Context, conn *rpc.Conn, session string) ([]byte, error) {
	params, err := json.Marshal(map[string]any{
		"sessionId": session, "prompt": []map[string]string{{"type": "text", "text": o.request.Prompt}},
	})
	if err != nil {
		return nil, err
	}
	asked, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	var raw []byte
	var failed error
	answered := make(chan struct{})
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		defer close(answered)
		raw, failed = conn.Call(asked, "session/prompt", params)
	})
	select {
	case <-answered:
		return raw, described(failed)
	case <-o.ctx.Done():
	}
	defer giveUp()
	late := time.NewTimer(o.gracePeriod(caller, cancelGrace))
	defer late.Stop()
	told, cut := context.WithTimeout(asked, cancelGrace)
	defer cut()
	if err := conn.Notify(told, "session/cancel", append(wire.AppendQuote([]byte(`{"sessionId":`), session), '}')); err != nil {
		return nil, err
	}
	o.failPendingRequests()
	select {
	case <-answered:
		return raw, described(failed)
	case <-late.C:
	case <-o.callerLeft(caller):
	}
	return nil, context.Cause(o.ctx)
}

// listen passes on the agent's updates until enough ends, and then those that arrived before.
func (o *run) listen(enough context.Context, updates *rpc.Subscription) {
	for {
		m, err := updates.Next(enough)
		if err != nil {
			return
		}
		o.pace.passed(m.Body)
		o.update(m.Body)
	}
}

// update holds the parsed fields of session/update. The raw update is passed on as well.
type update struct {
	Update struct {
		Kind    string          `json:"sessionUpdate"`
		Content json.RawMessage `json:"content"` // a block for chunks, a list for tool calls
		Title   string          `json:"title"`
		Status  string          `json:"status"`
		ID      string          `json:"toolCallId"`
		Entries []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"entries"`
	} `json:"update"`
}

// update passes one update on: a part of the answer as text, anything else as a summary.
func (o *run) update(raw []byte) {
	var u update
	if err := json.Unmarshal(raw, &u); err != nil {
		o.sendEvent(Event{Kind: KindNote, Text: fmt.Sprintf("an update of the agent can't be read: %v", err)})
		return
	}
	e := Event{Kind: KindUpdate, Word: u.Update.Kind, Raw: raw}
	switch u.Update.Kind {
	case "agent_message_chunk":
		if text := textOf(u.Update.Content); text != "" {
			e = Event{Kind: KindText, Text: text}
		}
	case "agent_thought_chunk":
		e.Text = textOf(u.Update.Content)
	case "tool_call", "tool_call_update":
		e.Text = strings.TrimSuffix(fmt.Sprintf("%s: %s", cmp.Or(u.Update.Title, u.Update.ID), u.Update.Status), ": ")
	case "plan":
		var steps []string
		for _, s := range u.Update.Entries {
			steps = append(steps, fmt.Sprintf("[%s] %s", s.Status, s.Content))
		}
		e.Text = strings.Join(steps, "; ")
	}
	o.sendEvent(e)
}
