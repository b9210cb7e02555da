package facts

import (
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// isSuspicious reports whether a server's form has the fact.
func isSuspicious(t *testing.T, f *Finder, schema string) bool {
	t.Helper()
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":%s}}`, schema)
	c := &gate.Call{Message: gate.Message{Side: wire.FromServer, Method: "elicitation/create", Line: line}, Case: gate.Case{Server: "web"}}
	if err := wire.Read(line, wire.FromServer, &c.Envelope); err != nil {
		t.Fatal(err)
	}
	for _, fact := range f.Of(t.Context(), c) {
		if fact.Name == gate.FactSmelly && fact.By == "web" {
			return true
		}
	}
	return false
}

// A form that requests credentials by name has the fact, however it names them.
func TestForms(t *testing.T) {
	f := New(Options{})
	suspicious := func(schema string) bool { return isSuspicious(t, f, schema) }
	property := `{"type":"object","properties":{"%s":{"type":"string","title":"%s","description":"%s"}},"required":["%[1]s"]}`
	for _, tt := range [][3]string{
		{"password", "", ""}, {"userPassword", "", ""}, {"new_password", "", ""}, {"api_key", "", ""}, {"apiKey", "", ""}, {"API-KEY", "", ""}, {"access_token", "", ""}, {"githubToken", "", ""},
		{"client_secret", "", ""}, {"passphrase", "", ""}, {"ssh_private_key", "", ""}, {"credentials", "", ""}, {"otp", "", ""}, {"cvv", "", ""}, {"card_number", "", ""}, {"seed_phrase", "", ""}, {"sessionCookie", "", ""},
		{"p\\u0061ssword", "", ""}, {"p\u0430ssword", "", ""}, {"pass\u200bword", "", ""},
		{"value", "Your password", ""}, {"value", "Password (again)", ""}, {"value", "", "The API key of your account at example.com."}, {"value", "", "Paste a personal access token here"}, {"v", "One-time code", ""}, {"v", "Verification code", ""},
		{"v", "", "Enter your PIN, please"}, {"v", "", "Words of the seed phrase"},
	} {
		if !suspicious(fmt.Sprintf(property, tt[0], tt[1], tt[2])) {
			t.Errorf("%q is nothing", tt)
		}
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"login":{"type":"object","properties":{"password":{"type":"string"}}}}}`,
		`{"type":"object","properties":{"v":{"type":"string","format":"password"}}}`,
		`{"type":"object","properties":{"v":{"type":"string","enum":["a","b"],"enumNames":["Your password","b"]}}}`,
	} {
		if !suspicious(schema) {
			t.Errorf("%s is nothing", schema)
		}
	}
	for _, tt := range [][3]string{
		{"name", "Name", "Your full name"}, {"email", "Mail", "Where to write to"}, {"branch", "Branch", "The branch to merge"}, {"page_token", "", ""}, {"max_tokens", "Most tokens", "How many tokens the answer may have"},
		{"key", "Key", "The key of the issue"}, {"number", "Number", "The number of the pull request"}, {"code", "Code", "The code of the country"}, {"public_key", "", ""}, {"pinned", "Pinned", "Pin the note"},
	} {
		if suspicious(fmt.Sprintf(property, tt[0], tt[1], tt[2])) {
			t.Errorf("%q is smelly", tt)
		}
	}
}
