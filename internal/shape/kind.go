package shape

import (
	"encoding/json"
	"strings"
)

// kindsOf lists the kinds that a schema names, and whether null is one; said is
// false where it names none. It names them by type; where it doesn't, by the
// values that it lists, or by saying what only objects or lists have.
func kindsOf(m map[string]any) (kinds []Kind, null, said bool) {
	switch t := m["type"].(type) {
	case string:
		kinds, null = kindsNamed([]any{t})
		return kinds, null, true
	case []any:
		kinds, null = kindsNamed(t)
		return kinds, null, true
	}
	if list, ok := m["enum"].([]any); ok && len(list) > 0 {
		kinds, null = kindsOfValues(list)
		return kinds, null, true
	}
	if value, ok := m["const"]; ok {
		kinds, null = kindsOfValues([]any{value})
		return kinds, null, true
	}
	for _, key := range []string{"properties", "additionalProperties", "patternProperties", "required"} {
		if _, ok := m[key]; ok {
			return []Kind{Object}, false, true
		}
	}
	for _, key := range []string{"items", "prefixItems"} {
		if _, ok := m[key]; ok {
			return []Kind{List}, false, true
		}
	}
	return nil, false, false
}

// kindNames are the kinds by the words that schemas have for them.
var kindNames = map[string]Kind{"string": Text, "boolean": Bool, "integer": Integer, "number": Number, "array": List, "object": Object}

func kindsNamed(names []any) (kinds []Kind, null bool) {
	for _, name := range names {
		word, _ := name.(string)
		if word == "null" {
			null = true
			continue
		}
		kinds = append(kinds, kindNames[word]) // Any for what is none
	}
	return kinds, null
}

func kindsOfValues(values []any) (kinds []Kind, null bool) {
	for _, value := range values {
		switch value := value.(type) {
		case nil:
			null = true
		case string:
			kinds = append(kinds, Text)
		case bool:
			kinds = append(kinds, Bool)
		case json.Number:
			kind := Integer
			if strings.ContainsAny(value.String(), ".eE") {
				kind = Number
			}
			kinds = append(kinds, kind)
		default:
			kinds = append(kinds, Any)
		}
	}
	return kinds, null
}

// common is the one kind that several come to.
func common(kinds []Kind) Kind {
	if len(kinds) == 0 {
		return Any // nothing but null
	}
	kind := kinds[0]
	for _, k := range kinds[1:] {
		kind = wider(kind, k)
	}
	return kind
}

// wider is the kind of what is of one kind or the other.
func wider(a, b Kind) Kind {
	switch {
	case a == b:
		return a
	case a == Integer && b == Number, a == Number && b == Integer:
		return Number
	}
	return Any
}
