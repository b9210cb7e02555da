// Package old holds the readers that rawjson took the place of against it. It goes
// with them.
package old

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// maker writes JSON at random, most of it what one of the readers wants, some of
// it not quite.
type maker struct{ r *rand.Rand }

// shapes are what the readers read: a kind, or a list, or names.
var shapes = map[string]map[string]string{
	"greeting":   {"protocol_version": "one", "capabilities": "offers"},
	"offers":     {"tools": "[tool", "providers": "[provider", "capabilities": "[capability"},
	"tool":       {"name": "id", "description": "text", "input_schema": "any"},
	"provider":   {"id": "id", "display_name": "text", "description": "text", "models": "[model", "config_schema": "any"},
	"model":      {"id": "id", "display_name": "text", "context_window": "number", "capabilities": "any"},
	"capability": {"kind": "id", "name": "id", "permissions": "[granted", "params": "any"},
	"answer":     {"action": "action", "arguments": "any", "reason": "text"},
	"output":     {"request_id": "r1", "event": "out"},
	"out":        {"kind": "outkind", "content": "text"},
	"task":       {"id": "id", "label": "text", "kind": "text", "current": "number", "total": "number", "message": "text", "line": "text", "error": "text"},
	"exit":       {"exit_code": "number"},
	"append":     {"namespace": "id", "content": "text", "tags": "[text", "meta": "any"},
	"query":      {"namespace": "id", "content_contains": "text", "tag_prefix": "text", "since_ms": "number", "until_ms": "number", "limit": "number"},
	"setting":    {"key": "id", "value": "text"},
	"result":     {"content": "[block", "stop_reason": "text", "usage": "any"},
	"block":      {"type": "blocktype", "text": "text", "id": "id", "name": "id", "input": "any"},
	"event":      {"event": "inner", "type": "eventtype", "delta": "text", "text": "text", "request_id": "text"},
	"inner":      {"type": "eventtype", "delta": "text", "text": "text", "id": "id", "name": "id", "input": "any", "message": "text"},
	"ask":        {"messages": "[message", "modelPreferences": "preferences", "systemPrompt": "text", "temperature": "number", "maxTokens": "small", "stopSequences": "[text", "tools": "[asktool", "toolChoice": "choice", "metadata": "any"},
	"choice":     {"mode": "mode"}, "preferences": {"hints": "[hint"}, "hint": {"name": "id"},
	"asktool":    {"name": "id", "description": "text", "inputSchema": "any"},
	"message":    {"role": "role", "content": "[askblock"},
	"askblock":   {"type": "askkind", "text": "text", "id": "id", "name": "id", "input": "any", "toolUseId": "id", "content": "[askblock", "isError": "bool", "data": "id", "mimeType": "id", "annotations": "any"},
	"permission": {"sessionId": "id", "toolCall": "call", "options": "[option", "_meta": "any"},
	"call":       {"toolCallId": "id", "kind": "outkind", "title": "text", "rawInput": "any", "status": "id", "_meta": "any"},
	"option":     {"optionId": "id", "kind": "id", "name": "text"},
	"start":      {"command": "id", "args": "[text", "env": "[env", "outputByteLimit": "number"},
	"env":        {"name": "id", "value": "text"},
	"toolresult": {"content": "[any", "isError": "bool"},
}

var words = map[string][]string{
	"one": {"1"}, "id": {`"a"`, `"b-1"`, `"a:b"`, `""`}, "text": {`"hi"`, `""`, `"\u0041\n"`, `"x y"`}, "number": {"0", "1", "255", "256", "9007199254740993", "18446744073709551615", "9223372036854775808"},
	"granted": {`"tools"`, `"memory.read"`}, "action": {`"continue"`, `"modify"`, `"block"`}, "r1": {`"r1"`, `"r2"`}, "outkind": {`"text"`, `"system"`, `"done"`}, "bool": {"true", "false"},
	"small": {"1", "9"}, "mode": {`"auto"`, `"none"`, `"required"`}, "role": {`"user"`, `"assistant"`}, "askkind": {`"text"`, `"tool_use"`, `"tool_result"`},
	"blocktype": {`"text"`, `"tool_use"`, `"thinking"`}, "eventtype": {`"text"`, `"thinking"`, `"tool_use"`, `"usage"`, `"error"`, `"done"`},
	"any": {`{}`, `{"a":1}`, `{"A":1,"a":[2.50, "x"]}`, `[]`, `[1]`, `"s"`, "{\n\"b\":1}"},
}

var odd = []string{`null`, `1`, `-1`, `-0`, `1.0`, `1e2`, `""`, `"x"`, `[]`, `{}`, `true`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `"\ud800"`, "\"\xff\"", `[[]]`, `"`, ``, `nul`, `{"a":1,}`}

func (m *maker) pick(from []string) string { return from[m.r.IntN(len(from))] }

func (m *maker) some(n int) bool { return m.r.IntN(n) == 0 }

func (m *maker) value(kind string) string {
	if m.some(40) {
		return m.pick(odd)
	}
	if inner, ok := strings.CutPrefix(kind, "["); ok {
		if inner == "askblock" && m.some(3) {
			return m.value(inner)
		}
		var all []string
		for range m.r.IntN(3) {
			all = append(all, m.value(inner))
		}
		return m.blank() + "[" + strings.Join(all, ",") + "]"
	}
	if shapes[kind] != nil {
		return m.object(kind)
	}
	return m.pick(words[kind])
}

func (m *maker) blank() string {
	if m.some(10) {
		return m.pick([]string{" ", "\n", "\t", "\r\n"})
	}
	return ""
}

func (m *maker) object(kind string) string {
	var all []string
	add := func(name, value string) {
		all = append(all, m.blank()+m.name(name)+m.blank()+":"+m.blank()+value+m.blank())
	}
	for name, of := range shapes[kind] {
		if m.some(6) {
			continue
		}
		add(name, m.value(of))
		if m.some(40) { // again
			add(name, m.value(of))
		}
		if m.some(40) {
			add(twin(m, name), m.value(of))
		}
	}
	if m.some(10) {
		add(m.pick([]string{"more", "More", "", "\u200b", "__proto__", "x y"}), m.value("any"))
	}
	m.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return m.blank() + "{" + strings.Join(all, ",") + "}" + m.blank()
}

func twin(m *maker, name string) string {
	return m.pick([]string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], name + " ", name + "\u200b", strings.ReplaceAll(name, "s", "\u017f"), strings.ReplaceAll(name, "k", "\u212a")})
}

func (m *maker) name(name string) string {
	if name != "" && m.some(60) {
		name = twin(m, name)
	}
	quoted := strconv.Quote(name)
	if m.some(30) && name != "" && name[0] < 0x80 {
		quoted = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
	}
	return strings.ReplaceAll(quoted, `\x`, `\u00`)
}

// spoil changes a text at random.
func (m *maker) spoil(text string) string {
	if m.some(15) && len(text) > 0 {
		at := m.r.IntN(len(text))
		switch m.r.IntN(3) {
		case 0:
			return text[:at]
		case 1:
			return text[:at] + m.pick([]string{"{", "}", "\"", ",", "\x00", "\xff", "\\", "[", "]", ":"}) + text[at:]
		}
		return text + m.pick([]string{" ", "x", "{}", "\n", ","})
	}
	return text
}

// count is how many texts are tried.
func count() int {
	n, _ := strconv.Atoi(os.Getenv("OLDNEW"))
	return max(n, 20_000)
}

// Compare runs an old and a new reader on many texts, and prints examples of what
// only one of them takes.
func Compare(t *testing.T, kind string, was, is func(raw []byte) (any, error)) {
	m := &maker{rand.New(rand.NewPCG(1, uint64(len(kind))))}
	both, neither := 0, 0
	stricter, looser := map[string][]string{}, map[string][]string{}
	for range count() {
		raw := m.spoil(m.object(kind))
		a, wrong := was([]byte(raw))
		b, err := is([]byte(raw))
		switch {
		case wrong == nil && err == nil:
			both++
			if !reflect.DeepEqual(a, b) {
				t.Logf("%s %q:\nold %+v\nnew %+v", kind, raw, a, b)
			}
		case wrong != nil && err != nil:
			neither++
		case wrong == nil:
			why := class(err)
			stricter[why] = append(stricter[why], raw)
		default:
			looser[class(wrong)] = append(looser[class(wrong)], raw)
		}
	}
	t.Logf("%s: both %d, neither %d", kind, both, neither)
	for why, raws := range stricter {
		t.Logf("  only the old takes %d: %s; as %.300q", len(raws), why, shortest(raws))
	}
	for why, raws := range looser {
		t.Logf("  only the new takes %d: the old said %s; as %.300q", len(raws), why, shortest(raws))
	}
}

func shortest(all []string) string {
	best := all[0]
	for _, one := range all {
		if len(one) < len(best) {
			best = one
		}
	}
	return best
}

// class is an error without what was read.
func class(err error) string {
	parts := strings.Split(err.Error(), `"`)
	for i := range parts {
		if i%2 == 1 {
			parts[i] = ""
		}
	}
	return strings.Join(parts, `"`)
}
