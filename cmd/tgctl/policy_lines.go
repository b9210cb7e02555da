package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// longestLine is the longest line that explain - reads, in bytes.
const longestLine = 12 << 20

// ignored is beside an explanation which members of the line mean nothing.
type ignored struct {
	Ignored []string `json:"ignored"`
}

func explanationJSON(e *pb.Explanation, names []string) pbjson.Object {
	return pbjson.Object{Message: e, More: ignored{list(names)}}
}

// explainLines answers each line of standard input with one.
func (a *app) explainLines(ctx context.Context, o *explainOptions) error {
	if o.server+o.tool+o.uri+o.prompt+o.args+o.agent != "" {
		return misuse("with - the calls are in the lines; of the flags only --config and --project count")
	}
	return a.explaining(ctx, o, func(ask asker) error { return a.answerLines(o, ask) })
}

func (a *app) answerLines(o *explainOptions, ask asker) error {
	in := bufio.NewReaderSize(a.in, 64<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		out, err := o.answerTo(line, ask)
		if err != nil {
			return a.badConfig(err)
		}
		if err := a.printJSON(out); err != nil {
			return err
		}
	}
}

// answerTo is the answer to one line. What makes no sense is answered with an
// error, and is not the end.
func (o *explainOptions) answerTo(line []byte, ask asker) (pbjson.Object, error) {
	q, names, err := parseLine(line)
	if err != nil {
		return explanationJSON(&pb.Explanation{Error: err.Error()}, nil), nil
	}
	q.Brief = true
	if err := o.begin(q); err != nil {
		return pbjson.Object{}, err
	}
	e, err := ask(q)
	return explanationJSON(e, names), err
}

// readLine reads a line without its end; the last one may have none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestLine:
			return nil, fmt.Errorf("a line of more than %d bytes", longestLine)
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// parseLine reads one line of explain -, and lists the members of it that mean
// nothing.
func parseLine(line []byte) (q *pb.ExplainRequest, ignored []string, err error) {
	q = &pb.ExplainRequest{}
	texts := map[string]*string{
		"server": &q.Server, "method": &q.Method, "agent": &q.Agent, "session": &q.Session, "project": &q.Project,
		"tool": &q.Subject, "prompt": &q.Subject, "uri": &q.Subject,
	}
	objects := map[string]*[]byte{"arguments": &q.Arguments, "params": &q.Params, "result": &q.Result, "definition": &q.Definition}
	lists := map[string]*[]string{"command": &q.Command, "assume": &q.Assume}
	methods := map[string]string{"prompt": "prompts/get", "uri": "resources/read"}
	implied := ""
	seen := map[string]bool{}
	err = eachMember(line, func(name string, value jsontext.Value) error {
		if seen[name] {
			return fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
		switch {
		case value.Kind() == 'n' && (texts[name] != nil || objects[name] != nil || lists[name] != nil): // as if it were not there
		case texts[name] != nil:
			if methods[name] != "" {
				implied = methods[name]
			}
			return into(name, value, texts[name])
		case objects[name] != nil:
			*objects[name] = bytes.Clone(value)
		case lists[name] != nil:
			return into(name, value, lists[name])
		default:
			ignored = append(ignored, name)
		}
		return nil
	})
	if q.Method == "" {
		q.Method = implied
	}
	return q, ignored, err
}

func into(name string, value jsontext.Value, to any) error {
	if err := json.Unmarshal(value, to); err != nil {
		return fmt.Errorf("%q is of the wrong kind", name)
	}
	return nil
}

// eachMember calls f for each member of the one JSON object that line holds.
func eachMember(line []byte, f func(name string, value jsontext.Value) error) error {
	// What is within is for the gate's own reader to refuse.
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return errors.New("the line is not a JSON object")
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return fmt.Errorf("the line is not JSON: %w", err)
		}
		member := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return fmt.Errorf("the line is not JSON: %w", err)
		}
		if err := f(member, value); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return fmt.Errorf("the line is not JSON: %w", err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON object in the line")
	}
	return nil
}
