package policy

import (
	"fmt"
	"time"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// members is a set of members of the context. Building them costs more than
// Cedar takes to decide, so only those are built that a policy at hand looks
// at; which they are can be read off its text.
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

	// useHash is no member of the context: the hash of the agent's program, which
	// may have to be waited for.
	useHash members = 1 << 15
)

var memberNames = map[cedar.String]members{
	"arguments": useArguments, "lists": useLists, "ask": useAsk, "facts": useFacts, "fact_details": useFactDetails,
	"policy_id": usePolicyID, "profile": useProfile, "method": useMethod, "annotations": useAnnotations,
	"time": useTime, "session": useSession, "inputResponses": useResponses,
	"params": useParams,
}

// newContext builds the context of a request, as far as policies look at it.
// Arguments are held to takes where it is known.
// Every member is always there, so that a policy can look at each without asking
// first; what may lack members are arguments, lists, inputResponses, params, fact_details
// and annotations. Of what a server asks, arguments are the params.
func newContext(s *subject, c *gate.Call, k *Known, facts []gate.Fact, policyID string, policies candidates, takes *shape.Shape) (cedar.Record, error) {
	m, used := cedar.RecordMap{}, policies.uses()
	raw := c.Arguments()
	if s.class == asks {
		raw = c.Envelope.Params.Of(c.Line)
	}
	if used&(useArguments|useLists) != 0 {
		args, lists, err := convert(raw, used&useLists != 0, policies.lookAt)
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

// addBeside adds what stands in params beside the arguments.
func addBeside(m cedar.RecordMap, s *subject, c *gate.Call, used members) error {
	if used&useResponses != 0 {
		responses, _, err := convert(c.Envelope.InputResponses.Of(c.Line), false, nil)
		if err != nil {
			return fmt.Errorf("read inputResponses: %w", err)
		}
		m["inputResponses"] = responses
	}
	if used&useParams != 0 {
		var raw []byte // of what a server asks all of them are the arguments
		if s.class != asks {
			raw = c.Beside()
		}
		params, _, err := convert(raw, false, nil)
		if err != nil {
			return fmt.Errorf("read params beside the arguments: %w", err)
		}
		m["params"] = params
	}
	return nil
}

// timeValue is the moment of a call in the daemon's own time zone. Days count
// from 1, Monday, to 7, Sunday.
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

// factValues is the set of the facts' names, and for each of them the sets of
// what made it true and of the arguments it was found in.
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
