package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A list shows as much of a question as helps, as JSON, however long it is.
func TestPreview(t *testing.T) {
	var many []string
	for i := range 100_000 {
		many = append(many, fmt.Sprintf(`"m%d":{"a":[1,"two",{}]}`, i))
	}
	for name, params := range map[string]string{
		"a long string": `{"name":"write","arguments":{"text":"` + strings.Repeat("x", 6<<20) + `","path":"notes.txt"}}`,
		"a long number": `{"name":"write","arguments":{"n":` + strings.Repeat("1", 6<<20) + `}}`,
		"many members":  `{"name":"write","arguments":{` + strings.Join(many, ",") + `}}`,
		"a deep list":   strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"no JSON":       `{"name":` + strings.Repeat("x", 10_000),
	} {
		short := preview([]byte(params))
		if len(short) > 3*longestPreview || !json.Valid(short) {
			t.Errorf("%s: %d bytes: %.200s", name, len(short), short)
		}
		if name == "a long string" && (!strings.Contains(string(short), "(6291456 bytes)") || !strings.Contains(string(short), "notes.txt")) {
			t.Errorf("%s: %.400s", name, short)
		}
	}
	if whole := `{"name":"x"}`; string(preview([]byte(whole))) != whole {
		t.Error("a short one is not whole")
	}
}
