package facts

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// With a form, a server can request anything from the agent's user, and the input goes back to
// the server. MCP forbids forms for credentials, and a user cannot tell who asks. So a form that
// names a credential is suspicious.

// form examines the form that a server wants the user to fill in.
func (in *inspection) form() {
	c := in.call
	schema, err := wire.Member(c.Line, c.Envelope.Params, "requestedSchema")
	if err != nil || !schema.Present() {
		return
	}
	f := formSearch{inspection: in}
	in.walk.raw = schema.Of(c.Line)
	if err := in.walk.run(&f); err != nil {
		f.names("more than can be checked", "")
	}
}

// formSearch visits the members of a form's schema.
type formSearch struct {
	inspection *inspection
	cleaner    cleaner
}

func (f *formSearch) names(what, member string) {
	f.inspection.addFact(gate.Fact{
		Name: gate.FactSmelly, Detail: fmt.Sprintf("its form asks the user for credentials by name (%s)", what), Member: member, By: f.inspection.call.Server,
	})
}

func (f *formSearch) member(w *walk, name span) {
	text := f.cleaner.clean(unquoted(w.raw[name.start:name.end]))
	if kind, what := judgeName(text); kind != plainName {
		f.names(what, w.path())
	} else if what := credentialIn(text); what != "" {
		f.names(what, w.path())
	}
}

func (f *formSearch) enter(*walk) bool { return true }

// labels are the members of a schema whose values the user reads.
var labels = set("title", "description", "enumnames", "enum", "const", "default", "format")

func (f *formSearch) value(w *walk, kind jsontext.Kind, v span) {
	if kind != '"' || !isOneOf(labels, w.name()) {
		return
	}
	if what := credentialIn(f.cleaner.clean(unquoted(w.raw[v.start:v.end]))); what != "" {
		f.names(what, w.path())
	}
}

func (f *formSearch) pair(*walk, span, span) {}

// Words that name a credential to a person: those that suffice alone, and those that follow
// certain others.
var (
	credentialWords = set("password", "passwords", "passwd", "passphrase", "passcode", "passwort", "credential", "credentials", "apikey",
		"otp", "totp", "cvv", "cvc", "mnemonic", "jwt")
	credentialBehind = map[string]map[string]bool{
		"key":    set("api", "access", "secret", "private", "signing", "encryption", "ssh", "license"),
		"keys":   set("api", "access", "secret", "private", "signing", "encryption", "ssh", "license"),
		"token":  set("access", "api", "auth", "bearer", "refresh", "session", "security", "personal", "github", "bot", "oauth"),
		"tokens": set("access", "api", "auth", "bearer", "refresh", "session", "security", "personal", "github", "bot", "oauth"),
		"secret": set("client", "app", "api", "shared", "your"),
		"phrase": set("seed", "recovery", "backup", "pass"),
		"code":   set("security", "recovery", "backup", "pin", "2fa", "mfa", "otp", "time", "verification", "authenticator"),
		"pin":    set("your", "card", "account", "user", "bank"),
		"number": set("card"),
	}
)

// credentialIn returns the words of a text for a person that name a credential, or "".
func credentialIn(text []byte) string {
	before := ""
	for part := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) || r == '_' }) {
		words := split(part)
		for i := range words.n {
			word := string(words.word(i))
			if credentialWords[word] {
				return word
			}
			if credentialBehind[word][before] {
				return before + " " + word
			}
			before = word
		}
	}
	return ""
}
