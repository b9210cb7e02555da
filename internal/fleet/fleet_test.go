package fleet

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/sshkey"
)

const (
	device = "UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	hash   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var fingerprint = "SHA256:" + strings.Repeat("a", 43)

var age = "age1" + strings.Repeat("q", 58)

func sampleToken() *Token {
	return &Token{
		V: TokenVersion, Fleet: "acme", Engine: []string{"tls://fleet.example:4222", "wss://fleet.example"}, Root: hash,
		Group: "eng", Mode: ModeFloor, Role: RoleDevice, Until: 1_800_000_000, Secret: "0123456789abcdef",
	}
}

func TestToken(t *testing.T) {
	line := sampleToken().String()
	got, err := ParseToken("\n  " + line + " \n")
	if err != nil || got.String() != line || got.Group != "eng" {
		t.Fatalf("ParseToken(%q) = %+v, %v", line, got, err)
	}
	if strings.ContainsAny(line, " \n\t\"'$`\\") {
		t.Errorf("%q can't be pasted everywhere", line)
	}
}

func TestTokenRefused(t *testing.T) {
	seal := func(text string) string {
		return tokenPrefix + base64.RawURLEncoding.EncodeToString(append([]byte(text), checksum([]byte(text))...))
	}
	change := func(f func(*Token)) string {
		token := sampleToken()
		f(token)
		return token.String()
	}
	line, text := sampleToken().String(), string(Encode(sampleToken()))
	for name, bad := range map[string]string{
		"empty":            "",
		"cut":              line[:len(line)-6],
		"another prefix":   "tgfleet2-" + strings.TrimPrefix(line, tokenPrefix),
		"a line end in it": line[:40] + "\n" + line[40:],
		"changed":          line[:60] + "A" + line[61:],
		"another secret":   tokenPrefix + base64.RawURLEncoding.EncodeToString(append([]byte(strings.Replace(text, "0123456789abcdef", "0123456789abcdeg", 1)), checksum([]byte(text))...)),
		"too long":         line + strings.Repeat("A", maxToken),
		"a space more":     seal(strings.Replace(text, `"v":1`, `"v": 1`, 1)),
		"a member twice":   seal(strings.Replace(text, `"mode":"floor"`, `"mode":"full","mode":"floor"`, 1)),
		"a member more":    seal(strings.Replace(text, `"v":1`, `"v":1,"w":1`, 1)),
		"another case":     seal(strings.Replace(text, `"mode"`, `"Mode"`, 1)),
		"version":          change(func(t *Token) { t.V = 2 }),
		"mode":             change(func(t *Token) { t.Mode = "none" }),
		"role":             change(func(t *Token) { t.Role = "admin" }),
		"group":            change(func(t *Token) { t.Group = "a.b" }),
		"fleet":            change(func(t *Token) { t.Fleet = "" }),
		"root":             change(func(t *Token) { t.Root = strings.ToUpper(hash) }),
		"authority":        change(func(t *Token) { t.CA = "x" }),
		"until":            change(func(t *Token) { t.Until = -1 }),
		"short secret":     change(func(t *Token) { t.Secret = "abc" }),
		"no engine":        change(func(t *Token) { t.Engine = nil }),
		"plain engine":     change(func(t *Token) { t.Engine = []string{"nats://fleet.example:4222"} }),
		"a user":           change(func(t *Token) { t.Engine = []string{"tls://me@fleet.example:4222"} }),
		"a path":           change(func(t *Token) { t.Engine = []string{"wss://fleet.example/x"} }),
		"no host":          change(func(t *Token) { t.Engine = []string{"tls://:4222"} }),
		"another place":    change(func(t *Token) { t.Policy = "https://policy.example/acme/" }),
		"records alone":    change(func(t *Token) { t.OTLP = "https://logs.example/v1/logs" }),
		"a secret":         change(func(t *Token) { t.Engine, t.Policy, t.Until = nil, "https://policy.example/acme/", 0 }),
	} {
		if got, err := ParseToken(bad); err == nil {
			t.Errorf("%s: a token: %+v", name, got)
		} else if strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
}

// webToken is a token of a fleet without an engine.
func webToken() *Token {
	return &Token{V: TokenVersion, Fleet: "acme", Policy: "https://policy.example:8443/acme/", OTLP: "https://logs.example/v1/logs", Root: hash, Group: "eng", Mode: ModeFloor, Role: RoleDevice}
}

func TestTokenWithoutEngine(t *testing.T) {
	for _, change := range []func(*Token){func(*Token) {}, func(t *Token) { t.OTLP = "" }, func(t *Token) { t.CA = hash }} {
		token := webToken()
		change(token)
		if got, err := ParseToken(token.String()); err != nil || got.Policy != token.Policy || got.OTLP != token.OTLP {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for name, change := range map[string]func(*Token){
		"an engine, too":    func(t *Token) { t.Engine = sampleToken().Engine },
		"a secret":          func(t *Token) { t.Secret = "0123456789abcdef" },
		"an end":            func(t *Token) { t.Until = 1_800_000_000 },
		"an approver":       func(t *Token) { t.Role = RoleApprover },
		"no folder":         func(t *Token) { t.Policy = "https://policy.example/acme" },
		"plain":             func(t *Token) { t.Policy = "http://policy.example/" },
		"capitals":          func(t *Token) { t.Policy = "HTTPS://policy.example/" },
		"a user":            func(t *Token) { t.Policy = "https://me@policy.example/" },
		"a query":           func(t *Token) { t.Policy = "https://policy.example/?a=/" },
		"an empty query":    func(t *Token) { t.OTLP = "https://logs.example/v1/logs?" },
		"a fragment":        func(t *Token) { t.OTLP = "https://logs.example/v1/logs#a" },
		"an empty fragment": func(t *Token) { t.OTLP = "https://logs.example/v1/logs#" },
		"no host":           func(t *Token) { t.OTLP = "https:///v1/logs" },
		"a port alone":      func(t *Token) { t.OTLP = "https://:443/v1/logs" },
		"opaque":            func(t *Token) { t.OTLP = "https:logs.example" },
		"plain records":     func(t *Token) { t.OTLP = "http://logs.example/v1/logs" },
		"a hidden slash":    func(t *Token) { t.Policy = "https://policy.example/a%2Fb/" },
		"too long":          func(t *Token) { t.Policy = "https://policy.example/" + strings.Repeat("a", maxAddress) + "/" },
	} {
		token := webToken()
		change(token)
		if _, err := ParseToken(token.String()); err == nil {
			t.Errorf("%s: %+v is a token", name, token)
		}
	}
}

// Each of them is a word of a subject, and nothing in it has a meaning there.
func TestNames(t *testing.T) {
	if CheckName("eng-2") != nil || CheckID("A-3") != nil || CheckDevice(device) != nil {
		t.Error("a name, an id or a device is refused")
	}
	for _, word := range []string{"", "*", ">", "a.b", "a b", "é", "a\n", strings.Repeat("a", 65)} {
		if CheckName(word) == nil || CheckID(word) == nil || CheckDevice(word) == nil {
			t.Errorf("%q is accepted", word)
		}
	}
}

func sampleBundle(t testing.TB) *Bundle {
	return &Bundle{
		V: BundleVersion, Fleet: "acme", Group: "eng", Mode: ModeFloor, Version: 3, Rules: "schema: 1\n", Cedar: []File{{"base.cedar", "permit(principal, action, resource);"}},
		Approvers: []Approver{{Name: "ann", SSH: sshkey.New(t).Line(), Age: age, Devices: []string{device}}}, Values: ValuesNone, Overflow: OverflowRefuse,
	}
}

func TestBundle(t *testing.T) {
	text := sampleBundle(t).Encode()
	got, err := ParseBundle(text)
	if err != nil || !bytes.Equal(got.Encode(), text) {
		t.Fatalf("ParseBundle(%s) = %+v, %v", text, got, err)
	}
	for name, f := range map[string]func(*Bundle){
		"version of the form": func(b *Bundle) { b.V = 2 },
		"no version":          func(b *Bundle) { b.Version = 0 },
		"mode":                func(b *Bundle) { b.Mode = "" },
		"values":              func(b *Bundle) { b.Values = "all" },
		"overflow":            func(b *Bundle) { b.Overflow = "" },
		"group":               func(b *Bundle) { b.Group = "*" },
		"a path":              func(b *Bundle) { b.Cedar[0].Name = "../x" },
		"a file twice":        func(b *Bundle) { b.Cedar = append(b.Cedar, b.Cedar[0]) },
		"an approver's name":  func(b *Bundle) { b.Approvers[0].Name = "a.b" },
		"a key":               func(b *Bundle) { b.Approvers[0].SSH = "ssh-rsa AAAA" },
		"a comment":           func(b *Bundle) { b.Approvers[0].SSH += " ann@home" },
		"a recipient":         func(b *Bundle) { b.Approvers[0].Age = "age1" },
		"a device":            func(b *Bundle) { b.Approvers[0].Devices[0] = "x" },
		"a name twice": func(b *Bundle) {
			b.Approvers = append(b.Approvers, Approver{Name: "ann", SSH: sshkey.New(t).Line(), Age: age})
		},
		"a key twice": func(b *Bundle) {
			b.Approvers = append(b.Approvers, Approver{Name: "bob", SSH: b.Approvers[0].SSH, Age: age})
		},
		"too large": func(b *Bundle) { b.Rules = strings.Repeat("#", MaxBundle) },
	} {
		b := sampleBundle(t)
		f(b)
		if _, err := ParseBundle(b.Encode()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseBundle(append(text, '\n')); err == nil {
		t.Error("a bundle with a line end after it is accepted")
	}
}

func sampleStatement() Statement {
	return Statement{
		V: StatementVersion, Fleet: "acme", Group: "eng", Device: device, Question: "A-3", Nonce: strings.Repeat("0f", 16), Digest: hash, Subject: hash, Shown: hash,
		Server: "files", Method: "tools/call", Tool: "<&\u2028write>", Definition: hash, Expires: 1_800_000_000,
	}
}

// Whatever differs from the question that was asked is another one.
func TestDecisionOn(t *testing.T) {
	asked := sampleStatement()
	yes := asked.Decided(Approve, fingerprint, "fine")
	if got, err := DecisionOn(&asked, yes.Encode()); err != nil || *got != yes {
		t.Fatalf("DecisionOn = %+v, %v", got, err)
	}
	other := strings.Repeat("a", 64)
	for name, f := range map[string]func(*Statement){
		"version": func(s *Statement) { s.V = 2 }, "fleet": func(s *Statement) { s.Fleet = "other" }, "group": func(s *Statement) { s.Group = "ops" },
		"device": func(s *Statement) { s.Device = "UB" + device[2:] }, "question": func(s *Statement) { s.Question = "A-4" },
		"nonce": func(s *Statement) { s.Nonce = strings.Repeat("1f", 16) }, "digest": func(s *Statement) { s.Digest = other },
		"subject": func(s *Statement) { s.Subject = other }, "what was shown": func(s *Statement) { s.Shown = other }, "server": func(s *Statement) { s.Server = "github" },
		"method": func(s *Statement) { s.Method = "prompts/get" }, "tool": func(s *Statement) { s.Tool = "read" },
		"definition": func(s *Statement) { s.Definition = "" }, "touch": func(s *Statement) { s.Touch = true },
		"expiry": func(s *Statement) { s.Expires++ }, "no verdict": func(s *Statement) { s.Verdict = "" },
		"another verdict": func(s *Statement) { s.Verdict = "Approve" }, "no approver": func(s *Statement) { s.Approver = "" },
		"a long note": func(s *Statement) { s.Note = strings.Repeat("a", MaxNote+1) },
	} {
		s := yes
		f(&s)
		if _, err := DecisionOn(&asked, s.Encode()); err == nil {
			t.Errorf("%s: accepted as a decision on another question", name)
		}
	}
	for name, text := range map[string]string{
		"space":  strings.Replace(string(yes.Encode()), `"v":1`, `"v": 1`, 1),
		"twice":  strings.Replace(string(yes.Encode()), `"v":1`, `"verdict":"deny","v":1`, 1),
		"escape": strings.Replace(string(yes.Encode()), `"approve"`, `"\u0061pprove"`, 1),
		"long":   strings.Repeat(" ", maxStatement+1),
	} {
		if _, err := DecisionOn(&asked, []byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseQuestion(yes.Encode()); err == nil {
		t.Error("a decision is taken for a question")
	}
	if got, err := ParseQuestion(asked.Encode()); err != nil || *got != asked {
		t.Errorf("ParseQuestion = %+v, %v", got, err)
	}
}

// Nobody can show an approver another call than the one that the decision signs.
func TestShown(t *testing.T) {
	shown := Shown{V: ShownVersion, From: "bob@desk", Agent: "claude-code", Params: `{"path":"/x"}`, Facts: []string{"secret"}}
	s := sampleStatement()
	s.Shown = Digest(shown.Encode())
	if got, err := s.ShownWith(shown.Encode()); err != nil || got.Params != shown.Params {
		t.Fatalf("ShownWith = %+v, %v", got, err)
	}
	other := shown
	other.Params = `{"path":"/y"}`
	if _, err := s.ShownWith(other.Encode()); err != ErrOther {
		t.Errorf("another call: %v", err)
	}
	for name, text := range map[string][]byte{"no object": []byte("null"), "no version": (&Shown{}).Encode(), "long": bytes.Repeat([]byte(" "), MaxShown+1)} {
		s.Shown = Digest(text)
		if _, err := s.ShownWith(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSeen(t *testing.T) {
	s := Seen{V: SeenVersion, Device: device, At: 1, Group: "eng", Mode: ModeFull, Log: "LOG", Seq: 7, Head: hash}
	if got, err := ParseSeen(s.Encode()); err != nil || *got != s {
		t.Fatalf("ParseSeen = %+v, %v", got, err)
	}
	for name, f := range map[string]func(*Seen){
		"version": func(s *Seen) { s.V = 0 }, "device": func(s *Seen) { s.Device = "x" }, "head": func(s *Seen) { s.Head = "" },
		"log": func(s *Seen) { s.Log = "" }, "digest": func(s *Seen) { s.Digest = "x" }, "group": func(s *Seen) { s.Group = "" },
	} {
		bad := s
		f(&bad)
		if _, err := ParseSeen(bad.Encode()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What is accepted has one text.
func FuzzForms(f *testing.F) {
	asked := sampleStatement()
	yes := asked.Decided(Deny, fingerprint, "")
	for _, seed := range []string{sampleToken().String(), webToken().String(), string(sampleBundle(f).Encode()), string(asked.Encode()), string(yes.Encode()), `{"v":1}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := ParseToken(text); err == nil && token.String() != strings.TrimSpace(text) {
			t.Errorf("a token with two texts: %q", text)
		}
		if b, err := ParseBundle([]byte(text)); err == nil && string(b.Encode()) != text {
			t.Errorf("a bundle with two texts: %q", text)
		}
		if s, err := ParseDecision([]byte(text)); err == nil && string(s.Encode()) != text {
			t.Errorf("a statement with two texts: %q", text)
		}
		if s, err := ParseSeen([]byte(text)); err == nil && string(s.Encode()) != text {
			t.Errorf("a report with two texts: %q", text)
		}
	})
}
