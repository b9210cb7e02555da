// Scrubber is an extension that removes secrets from results before an agent sees them: keys,
// tokens and passwords in a server's answer are replaced with "[redacted: rule]", and every
// other byte is unchanged.
//
// The detection library of gitleaks finds secrets (detector.go), and rules of ours find what it
// misses (rules.go). Secrets are in JSON strings, possibly with escapes. So the strings are
// extracted from the result (walk.go) and searched as one text, and the secrets are replaced by
// offset (scrub.go, quoted.go). This file handles the gate's requests, over the Content-Length
// wire protocol.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("scrubber: ")
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// protocolVersion is the version of the extension protocol.
const protocolVersion = 1

// extension is one connection to the gate.
type extension struct {
	conn *rpc.Conn
	room chan struct{} // holds a token for each result in progress

	mu       sync.Mutex // guards the fields below
	detector *detector
	config   map[string]string
	settings settings
	results  int
	touched  int
	found    map[string]int // by rule
}

// run handles the gate's requests until the gate closes the connection.
func run(ctx context.Context, in *os.File, out *os.File) error {
	e := &extension{room: make(chan struct{}, runtime.GOMAXPROCS(0)), found: map[string]int{}}
	e.conn = rpc.NewConn(in, out, rpc.Options{
		Framing: wire.ContentLength{}, Dialect: rpc.JSONRPC{}, Handler: rpc.HandlerFunc(e.handle),
		MaxMessage: 2 * wire.MaxMessage, // a longer frame would end the connection; the dialect refuses one beyond wire.MaxMessage
	})
	changes := e.conn.Subscribe(0, "config.changed")
	var listening sync.WaitGroup
	listening.Go(func() {
		for {
			m, err := changes.Next(ctx)
			if err != nil {
				return
			}
			e.changed(m.Body)
		}
	})
	err := e.conn.Run(ctx)
	changes.Close()
	listening.Wait()
	return err
}

func (e *extension) handle(ctx context.Context, method string, params []byte) ([]byte, error) {
	switch method {
	case "initialize":
		return e.initialize(ctx, params)
	case "hook.after":
		return e.after(ctx, params)
	case "command.invoke":
		return e.command(ctx, params)
	case "shutdown":
		return []byte(`{}`), nil
	}
	return nil, &rpc.Fault{Code: -32601, Message: "method not found: " + method}
}

func (e *extension) initialize(ctx context.Context, params []byte) ([]byte, error) {
	var hello struct {
		Version int               `json:"protocol_version"`
		Config  map[string]string `json:"config"`
	}
	if err := json.Unmarshal(params, &hello); err != nil {
		return nil, fmt.Errorf("read the handshake: %w", err)
	}
	answer := fmt.Appendf(nil, `{"protocol_version":%d,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}`, protocolVersion)
	if hello.Version != protocolVersion {
		return answer, nil // the gate sees that the versions differ
	}
	s, err := readSettings(hello.Config)
	if err != nil {
		return nil, err
	}
	d, err := newDetector()
	if err != nil {
		return nil, fmt.Errorf("load the rules: %w", err)
	}
	e.mu.Lock()
	e.detector, e.config, e.settings = d, hello.Config, s
	e.mu.Unlock()
	if _, err := e.conn.Call(ctx, "config.subscribe", []byte(`{}`)); err != nil {
		return nil, fmt.Errorf("subscribe to the configuration: %w", err)
	}
	return answer, nil
}

// changed applies a new configuration. If it is invalid, the old one stays in force.
func (e *extension) changed(params []byte) {
	var change struct {
		Key   string  `json:"key"`
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(params, &change); err != nil {
		log.Print("a change of the configuration could not be read")
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	config := map[string]string{}
	maps.Copy(config, e.config)
	if change.Value == nil {
		delete(config, change.Key)
	} else {
		config[change.Key] = *change.Value
	}
	s, err := readSettings(config)
	if err != nil {
		log.Printf("the configuration stays as it was: %v", err)
		return
	}
	e.config, e.settings = config, s
}

// after scrubs one result.
func (e *extension) after(ctx context.Context, params []byte) ([]byte, error) {
	var asked struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(params, &asked); err != nil || asked.Result == nil {
		return nil, fmt.Errorf("a question without a result")
	}
	e.mu.Lock()
	d, s := e.detector, e.settings
	e.mu.Unlock()
	if d == nil {
		return nil, fmt.Errorf("asked before the handshake")
	}
	select {
	case e.room <- struct{}{}:
		defer func() { <-e.room }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	scrubbed, counts, err := s.scrub(ctx, d, asked.Result)
	e.count(counts)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return json.Marshal(map[string]string{"action": "block", "reason": err.Error()})
	case len(counts) == 0:
		return []byte(`{"action":"continue"}`), nil
	}
	return append(append([]byte(`{"action":"modify","result":`), scrubbed...), '}'), nil
}

func (e *extension) count(counts map[string]int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.results++
	if len(counts) > 0 {
		e.touched++
	}
	for rule, n := range counts {
		e.found[rule] += n
	}
}

// command runs report, the only command.
func (e *extension) command(ctx context.Context, params []byte) ([]byte, error) {
	var asked struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Request string   `json:"request_id"`
	}
	if err := json.Unmarshal(params, &asked); err != nil {
		return nil, fmt.Errorf("read the command: %w", err)
	}
	if asked.Command != "report" {
		return nil, &rpc.Fault{Code: -32601, Message: fmt.Sprintf("there is no command %q; there is report", asked.Command)}
	}
	if len(asked.Args) > 0 {
		return []byte(`{"exit_code":2}`), e.say(ctx, asked.Request, "system", "usage: tgctl ext run scrubber report")
	}
	if err := e.say(ctx, asked.Request, "text", e.report()); err != nil {
		return nil, err
	}
	return []byte(`{"exit_code":0}`), e.say(ctx, asked.Request, "done", "")
}

// report returns how much was found since the start of the program and by which rules, but not
// the secrets.
func (e *extension) report() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := fmt.Sprintf("%d results looked through since the start, secrets in %d\n", e.results, e.touched)
	for _, rule := range slices.Sorted(maps.Keys(e.found)) {
		text += fmt.Sprintf("%-32s %6d\n", rule, e.found[rule])
	}
	return text
}

func (e *extension) say(ctx context.Context, request, kind, content string) error {
	event, err := json.Marshal(map[string]any{"request_id": request, "event": map[string]string{"kind": kind, "content": content}})
	if err != nil {
		return err
	}
	return e.conn.Notify(ctx, "command.output", event)
}
