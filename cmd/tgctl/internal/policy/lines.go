package policy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// longestLine is the maximum length in bytes of a line that "explain -" reads.
const longestLine = 12 << 20

// ignored adds to an explanation which members of the input line have no meaning.
type ignored struct {
	Ignored []string `json:"ignored"`
}

func explanationJSON(e *pb.Explanation, names []string) pbjson.Object {
	return pbjson.Object{Message: e, More: ignored{ui.List(names)}}
}

// explainLines answers each line of standard input with one line.
func (a *app) explainLines(ctx context.Context, o *explainOptions) error {
	if o.server+o.tool+o.uri+o.prompt+o.args+o.agent != "" {
		return ui.Misuse("with -, only the flags --config and --project are allowed")
	}
	return a.explaining(ctx, o, func(ask asker) error { return a.answerLines(o, ask) })
}

func (a *app) answerLines(o *explainOptions, ask asker) error {
	lines := bufio.NewScanner(a.In)
	lines.Buffer(make([]byte, 64<<10), longestLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		out, err := o.answerTo(lines.Bytes(), ask)
		if err != nil {
			return a.badConfig(err)
		}
		if err := a.PrintJSON(out); err != nil {
			return err
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("the line is longer than %d bytes", longestLine)
	}
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}

// answerTo returns the answer to one line. An invalid line is answered with an error; the lines
// after it are still read.
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

// parseLine parses one line of "explain -". ignored lists the members that have no meaning.
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
			return fmt.Errorf("duplicate member %q", name)
		}
		seen[name] = true
		switch {
		case value.Kind() == 'n' && (texts[name] != nil || objects[name] != nil || lists[name] != nil): // null is the same as absent
		case texts[name] != nil:
			implied = cmp.Or(methods[name], implied)
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
	q.Method = cmp.Or(q.Method, implied)
	return q, ignored, err
}

func into(name string, value jsontext.Value, to any) error {
	if err := json.Unmarshal(value, to); err != nil {
		return fmt.Errorf("%q has the wrong type", name)
	}
	return nil
}

// eachMember calls f for each member of the single JSON object in line.
func eachMember(line []byte, f func(name string, value jsontext.Value) error) error {
	// Duplicate names and invalid UTF-8 inside are left for the gate's parser to refuse.
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
		return errors.New("the line has more than one JSON object")
	}
	return nil
}
