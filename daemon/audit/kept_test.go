package audit

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Kept distinguishes original from redacted values: a backtest must not judge a mask.
func TestKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      Options
		values string
		redact []string
		want   string
		whole  bool
	}{
		{"whole", Options{Redact: redactor}, `{"a":"x","n":[1,{}]}`, nil, `{"a":"x","n":[1,{}]}`, true},
		{"a secret", Options{Redact: redactor}, `{"a":"` + secret + `"}`, nil, `{"a":"hmac:`, false},
		{"a member", Options{Redact: redactor}, `{"a":"b"}`, []string{"a"}, `{"a":"hmac:`, false},
		{"what looks like a mask", Options{Redact: redactor}, `{"a":"hmac:0123456789abcdef"}`, nil, `{"a":"hmac:0123456789abcdef"}`, true},
		{"not kept", Options{Values: config.ValuesNone}, `{"a":"b"}`, nil, "", false},
		{"a preview", Options{Redact: redactor}, `{"a":"` + strings.Repeat("x", maxArguments) + `"}`, nil, "", false},
		{"full", Options{Values: config.ValuesFull}, `{"a":"` + secret + `"}`, nil, `{"a":"` + secret + `"}`, true},
		{"no object", Options{Values: config.ValuesFull}, `[1]`, nil, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := open(t, t.TempDir(), tt.o)
			if err := l.Record(context.Background(), &record.Record{Kind: record.KindCall}, []byte(tt.values), tt.redact); err != nil {
				t.Fatal(err)
			}
			seen := 0
			err := l.Read(context.Background(), Query{Kind: record.KindCall}, func(_ uint64, _, values []byte) error {
				seen++
				kept, whole, _ := l.Kept(values)
				if !strings.HasPrefix(string(kept), tt.want) || (kept == nil) != (tt.want == "") || whole != tt.whole {
					t.Errorf("got %s, %v; want %s, %v", kept, whole, tt.want, tt.whole)
				}
				return nil
			})
			if err != nil || seen != 1 {
				t.Errorf("%d records, %v", seen, err)
			}
		})
	}
	l := open(t, t.TempDir(), Options{})
	for _, line := range []string{"", "nonsense", `{"values":1`, `{"values":1,"arguments":{"a":1},"hmac":"zz"}`, `[]`, `{"values":1,"arguments":{"a":1},"hmac":"00"}`} {
		if _, whole, _ := l.Kept([]byte(line)); whole {
			t.Errorf("%s is whole", line)
		}
	}
}
