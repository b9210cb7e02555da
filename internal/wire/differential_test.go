package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every decoder in use decodes a line that Read accepts in the same way: the corpus is
// decoded by Go, Python and JavaScript, and the results are compared with the spans of
// the envelope.
//
//gotest:plain one goroutine reads a corpus
func TestDecodersAgree(t *testing.T) {
	corpus := corpus(t)
	var input strings.Builder
	want := make([]string, len(corpus))
	for i, line := range corpus {
		var e Envelope
		if err := Read(line, FromAgent, &e); err != nil {
			t.Fatal(err)
		}
		want[i] = spansPlain(t, line, &e)
		input.WriteString(base64.StdEncoding.EncodeToString(line) + "\n")
	}
	decoders := []struct {
		name    string
		command []string
	}{
		{"python", []string{"python3", "testdata/decode.py"}},
		{"node", []string{"node", "--stack-size=4000", "testdata/decode.js"}},
	}
	t.Run("go", func(t *testing.T) {
		for i, line := range corpus {
			compare(t, line, goPlain(t, line), want[i])
		}
	})
	for _, d := range decoders {
		t.Run(d.name, func(t *testing.T) {
			if _, err := exec.LookPath(d.command[0]); err != nil {
				t.Skipf("%s is not here, so what it would decode is not compared: %v", d.command[0], err)
			}
			cmd := exec.CommandContext(t.Context(), d.command[0], d.command[1:]...)
			cmd.Stdin = strings.NewReader(input.String())
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.Bytes())
			}
			got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
			if len(got) != len(corpus) {
				t.Fatalf("%d answers to %d lines", len(got), len(corpus))
			}
			for i, line := range corpus {
				compare(t, line, got[i], want[i])
			}
		})
	}
}

func compare(t *testing.T, line []byte, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%.300s\n\tgot  %.300s\n\twant %.300s", line, got, want)
	}
}

// corpus returns the accepted lines of the test tables and of a generator.
func corpus(t *testing.T) [][]byte {
	var lines [][]byte
	add := func(line []byte) {
		var e Envelope
		if len(line) < 200<<10 && Read(line, FromAgent, &e) == nil {
			lines = append(lines, line)
		}
	}
	for _, c := range readCases {
		add([]byte(c.line))
	}
	fixed := len(lines)
	r := rand.New(rand.NewPCG(3, 9))
	for range 4000 {
		line := randomMessage(r)
		add(line)
		add(mutated(r, line))
	}
	if fixed < 20 || len(lines) < 4000 {
		t.Fatalf("only %d of %d lines are accepted", fixed, len(lines))
	}
	return lines
}

// alphabet has texts on which decoders are known to differ.
var alphabet = []string{
	"a", "B", "0", " ", "é", "あ", "🐍", "\u2028", "\u2029", "\u0085", "\ufeff", "\u200b", "\u202e", "ſ", "K", "\ufffd",
	`\"`, `\\`, `\/`, `\b`, `\n`, `\u0000`, `\u000a`, `\u00e9`, `\ud83d\udc0d`, `\uffff`, `{`, `}`, `[`, `]`, `,`, `:`, `'`, `//`,
	`__proto__`, `constructor`, `id`, `method`, `name`, `\u006eame`,
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	b.WriteByte('"')
	for range r.IntN(5) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	b.WriteByte('"')
	return b.String()
}

func randomValue(r *rand.Rand, depth int) string {
	numbers := []string{"0", "-0", "-0.0", "1", "-1", "1.50", "1e3", "1E+400", "-1e400", "1e-400", "9007199254740993", "12345678901234567890123", "0.1"}
	switch n := r.IntN(7); {
	case n < 2 && depth > 0:
		return randomObject(r, depth-1)
	case n == 2 && depth > 0:
		var items []string
		for range r.IntN(4) {
			items = append(items, randomValue(r, depth-1))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case n == 3:
		return numbers[r.IntN(len(numbers))]
	case n == 4:
		return []string{"true", "false", "null"}[r.IntN(3)]
	}
	return randomText(r)
}

func randomObject(r *rand.Rand, depth int) string {
	var members []string
	for range r.IntN(4) {
		members = append(members, randomText(r)+":"+randomValue(r, depth))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func randomMessage(r *rand.Rand) []byte {
	ids := []string{"0", "-5", "1234567", `""`, `"a"`, `"\u0041é"`, "9007199254740992", `"1"`}
	methods := []string{"tools/call", `tools\/call`, "ping", "resources/read", "acme/x"}
	members := []string{`"jsonrpc":"2.0"`, `"method" : "` + methods[r.IntN(len(methods))] + `"`}
	if r.IntN(5) > 0 {
		members = append(members, `"id":`+ids[r.IntN(len(ids))])
	}
	if r.IntN(8) > 0 {
		params := []string{`"name":` + randomText(r), `"arguments":` + randomObject(r, 4), `"_meta":` + randomObject(r, 1), randomText(r) + ":" + randomValue(r, 2)}
		r.Shuffle(len(params), func(i, j int) { params[i], params[j] = params[j], params[i] })
		members = append(members, `"params":{`+strings.Join(params[:r.IntN(len(params)+1)], " ,")+`}`)
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return []byte(strings.Repeat(" ", r.IntN(2)) + "{" + strings.Join(members, ",\t") + "}")
}

// mutated changes a byte, or moves one piece of the line.
func mutated(r *rand.Rand, line []byte) []byte {
	line = slices.Clone(line)
	i, j := r.IntN(len(line)), r.IntN(len(line))
	if i > j {
		i, j = j, i
	}
	switch r.IntN(3) {
	case 0:
		line[i] = byte(r.IntN(256))
	case 1:
		line = slices.Delete(line, i, min(j, i+4))
	case 2:
		line = slices.Insert(line, i, slices.Clone(line[j:min(len(line), j+12)])...)
	}
	return line
}

// spansPlain returns the content of the envelope in the form that the programs in
// testdata print.
func spansPlain(t *testing.T, line []byte, e *Envelope) string {
	t.Helper()
	method := "absent"
	if e.Method != "" {
		method = plainForm(t, e.Method)
	}
	arguments := spanPlain(t, line, e.Arguments)
	if !e.Arguments.Present() && e.Params.Present() { // null is treated as absent
		if s, err := Member(line, e.Params, "arguments"); err == nil && string(s.Of(line)) == "null" {
			arguments = "null"
		}
	}
	return strings.Join([]string{spanPlain(t, line, e.ID), method, spanPlain(t, line, e.Name), arguments}, " ")
}

func spanPlain(t *testing.T, line []byte, s Span) string {
	t.Helper()
	if !s.Present() {
		return "absent"
	}
	return plainForm(t, decodeAny(t, s.Of(line)))
}

// goPlain decodes line with the standard library into structs, which ignores case and
// lets the last duplicate win.
func goPlain(t *testing.T, line []byte) string {
	t.Helper()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
		Params struct {
			Name      json.RawMessage `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%.300s: %v", line, err)
	}
	raw := func(text json.RawMessage) string {
		if text == nil {
			return "absent"
		}
		return plainForm(t, decodeAny(t, text))
	}
	method := "absent"
	if m.Method != nil {
		method = plainForm(t, *m.Method)
	}
	return strings.Join([]string{raw(m.ID), method, raw(m.Params.Name), raw(m.Params.Arguments)}, " ")
}

func decodeAny(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
	return v
}

// plainForm formats a value so that equal values of different decoders are equal texts:
// numbers as the nearest double.
func plainForm(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		var b strings.Builder
		b.WriteByte('s')
		for _, r := range v {
			fmt.Fprintf(&b, "%06x", r)
		}
		return b.String()
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil && !math.IsInf(f, 0) {
			t.Fatal(err)
		}
		if f == 0 {
			f = 0 // an integer in Python has no negative zero
		}
		return fmt.Sprintf("n%016x", math.Float64bits(f))
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = plainForm(t, v[i])
		}
		return "[" + strings.Join(items, ",") + "]"
	case map[string]any:
		var members []string
		for k, value := range v {
			members = append(members, plainForm(t, k)+":"+plainForm(t, value))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ",") + "}"
	}
	t.Fatalf("a value of type %T", v)
	return ""
}
