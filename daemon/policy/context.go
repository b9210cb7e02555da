package policy

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/shape"
	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// members is a set of members of the context. Building a member costs more than evaluating the
// policies, so only those that the policies read are built.
type members uint16

const (
	useArguments members = 1 << iota
	useLists
	useAsk
	useFacts
	useFactDetails
	usePolicyID
	useProfile
	useMethod
	useAnnotations
	useTime
	useSession
	useResponses
	useParams
	useAll members = 1<<iota - 1

	// useHash stands for the hash of the agent's program. It is not a member of the context. A
	// call may have to wait for it.
	useHash members = 1 << 15
)

var memberNames = map[cedar.String]members{
	"arguments": useArguments, "lists": useLists, "ask": useAsk, "facts": useFacts, "fact_details": useFactDetails,
	"policy_id": usePolicyID, "profile": useProfile, "method": useMethod, "annotations": useAnnotations,
	"time": useTime, "session": useSession, "inputResponses": useResponses,
	"params": useParams,
}

// newContext builds the part of a request's context that the policies read. The arguments must
// fit takes, unless it is nil. Every member of the context is present, so that policies need not
// test for it; members may be absent from arguments, lists, inputResponses, params, fact_details
// and annotations. In a request of a server, arguments holds the params.
func newContext(s *subject, c *gate.Call, k *Known, facts []gate.Fact, policyID string, policies candidates, takes *shape.Shape) (cedar.Record, error) {
	m, used := cedar.RecordMap{}, policies.uses()
	raw := c.Arguments()
	if s.class == classAsk {
		raw = c.Envelope.Params.Of(c.Line)
	}
	if used&(useArguments|useLists) != 0 {
		args, lists, err := convert(raw, used&useLists != 0, policies.readsArgument)
		if err == nil {
			args, err = fit(args, takes, policies)
		}
		if err != nil {
			return cedar.Record{}, err
		}
		m["arguments"], m["lists"] = args, lists
	}
	if used&useAsk != 0 {
		ask, err := askValue(s, raw)
		if err != nil {
			return cedar.Record{}, err
		}
		m["ask"] = ask
	}
	if used&useAnnotations != 0 {
		annotations, _, err := convert(k.Annotations, false, nil)
		if err != nil {
			return cedar.Record{}, err
		}
		m["annotations"] = annotations
	}
	if err := addBeside(m, s, c, used); err != nil {
		return cedar.Record{}, err
	}
	if used&(useFacts|useFactDetails) != 0 {
		m["facts"], m["fact_details"] = factValues(facts)
	}
	if used&useTime != 0 {
		m["time"] = timeValue(c.Received)
	}
	if used&useSession != 0 {
		m["session"] = cedar.NewRecord(cedar.RecordMap{
			"calls": cedar.Long(k.Calls), "seconds": cedar.Long(k.Seconds), "servers": texts(k.Servers),
		})
	}
	if used&(usePolicyID|useProfile|useMethod) != 0 {
		m["policy_id"], m["profile"], m["method"] = cedar.String(policyID), cedar.String(c.Profile), cedar.String(s.method)
	}
	return cedar.NewRecord(m), nil
}

// addBeside adds the content of params other than the arguments.
func addBeside(m cedar.RecordMap, s *subject, c *gate.Call, used members) error {
	if used&useResponses != 0 {
		responses, _, err := convert(c.Envelope.InputResponses.Of(c.Line), false, nil)
		if err != nil {
			return fmt.Errorf("read inputResponses: %w", err)
		}
		m["inputResponses"] = responses
	}
	if used&useParams != 0 {
		var raw []byte // for a request of a server, all params are arguments
		if s.class != classAsk {
			raw = c.Beside()
		}
		params, _, err := convert(raw, false, nil)
		if err != nil {
			return fmt.Errorf("read the params other than the arguments: %w", err)
		}
		m["params"] = params
	}
	return nil
}

// timeValue returns context.time, in the daemon's time zone. Days count from 1,
// Monday, to 7, Sunday.
func timeValue(t time.Time) cedar.Record {
	t = t.Local()
	day := int64(t.Weekday())
	if day == 0 {
		day = 7
	}
	return cedar.NewRecord(cedar.RecordMap{
		"hour": cedar.Long(t.Hour()), "day_of_week": cedar.Long(day), "timestamp": cedar.Long(t.Unix()),
	})
}

// factValues returns context.facts and context.fact_details: the names of the facts, and for each
// name what made it true and the arguments in which it was found.
func factValues(facts []gate.Fact) (cedar.Set, cedar.Record) {
	if len(facts) == 0 {
		return cedar.Set{}, cedar.Record{}
	}
	var names []string
	details, places := map[string][]string{}, map[string][]string{}
	for _, f := range facts {
		names = append(names, f.Name)
		if f.Detail != "" {
			details[f.Name] = append(details[f.Name], f.Detail)
		}
		if f.Member != "" {
			places[f.Name] = append(places[f.Name], f.Member)
		}
	}
	all := cedar.RecordMap{}
	for _, name := range names {
		all[cedar.String(name)] = cedar.NewRecord(cedar.RecordMap{
			"details": texts(details[name]), "members": texts(places[name]),
		})
	}
	return texts(names), cedar.NewRecord(all)
}

func texts(words []string) cedar.Set {
	if len(words) == 0 {
		return cedar.Set{}
	}
	values := make([]cedar.Value, len(words))
	for i, w := range words {
		values[i] = cedar.String(w)
	}
	return cedar.NewSet(values...)
}

// askParams holds what policies need of a server's request but could hardly read from its params.
type askParams struct {
	text       []string // text that a model or a person would read, in order
	tools      []string // tools that a sampling request offers the model
	properties []string // properties that a form requests
	uri        string   // URL to which a person is sent
}

// askValue returns context.ask, which is empty unless a server sends the request.
func askValue(s *subject, params []byte) (cedar.Record, error) {
	var d askParams
	if s.class == classAsk && params != nil {
		if err := d.read(params); err != nil {
			return cedar.Record{}, fmt.Errorf("read what the server asks: %w", err)
		}
	}
	a := uri.Tidy(d.uri) // as a browser reads it
	return cedar.NewRecord(cedar.RecordMap{
		"text":       cedar.String(strings.Join(d.text, "\n")),
		"tools":      texts(d.tools),
		"properties": texts(d.properties),
		"scheme":     cedar.String(a.Scheme),
		"host":       cedar.String(a.Host),
	}), nil
}

func (d *askParams) read(params []byte) error {
	o := rawjson.Read(params)
	for _, name := range []string{"message", "systemPrompt", "messages", "url"} {
		o.Has(name) // what an agent may take for it is an error
	}
	for _, m := range o.Members {
		switch m.Name {
		case "message", "systemPrompt":
			d.text = append(d.text, o.Text(m.Name))
		case "messages":
			d.addTexts(m.Value)
		case "url":
			d.uri = o.Text(m.Name)
		case "tools", "requestedSchema":
			if o.Get(m.Name) == nil {
				o.Fail("%s is null", m.Name)
			}
		}
	}
	for _, tool := range o.Objects("tools") {
		if tool.Has("name") {
			d.tools = append(d.tools, tool.Text("name"))
		}
	}
	if schema := o.Object("requestedSchema"); schema.Has("properties") {
		properties, err := rawjson.Members(schema.Get("properties"))
		if err != nil {
			o.Fail("requestedSchema.properties: %w", err)
		}
		for _, p := range properties {
			d.properties = append(d.properties, p.Name)
		}
	}
	return o.Err()
}

// addTexts collects every member "text" in value, at any depth.
func (d *askParams) addTexts(value jsontext.Value) {
	dec, isText := jsontext.NewDecoder(bytes.NewBuffer(value)), false
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return // the end: the value is known to be valid JSON
		}
		switch kind, n := dec.StackIndex(dec.StackDepth()); {
		case token.Kind() != '"' || kind != '{':
		case n%2 == 1: // a name
			isText = token.String() == "text"
		case isText:
			d.text = append(d.text, token.String())
		}
	}
}
