package policy

import (
	"context"
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const uriRules = `
schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "file:///etc/*", action: deny}
    - {match: "https://internal.example/*", action: deny}
    - {match: "http://169.254.169.254/*", action: deny}
    - {match: "file:///srv/My%20Files/*", action: deny}
    - {match: "https://fass.example/*", action: deny}
`

const uriPolicies = `
forbid (principal, action, resource is ThoughtGate::Resource) when { resource.scheme == "file" && resource.host == "" && resource.path like "/etc/*" };
forbid (principal, action, resource is ThoughtGate::Resource) when { resource.host == "internal.example" };
forbid (principal, action, resource is ThoughtGate::Resource) when { resource.host == "169.254.169.254" };
forbid (principal, action, resource is ThoughtGate::Resource) when { resource.path like "/srv/My Files/*" };
forbid (principal, action, resource is ThoughtGate::Resource) when { resource.host == "fass.example" };
`

// A URI that some parser normalizes cannot evade a rule, a list of exposed resources or a policy.
func TestTidiedURIs(t *testing.T) {
	const forward = "schema: 1\ngovernance: {defaults: {action: forward}}\n"
	sets := map[string]*Set{
		"rules": load(t, uriRules, ""),
		"cedar": load(t, forward, uriPolicies),
		"blocklist": load(t, `
schema: 1
sources:
  - id: fs
    expose: {mode: blocklist, resources: ["file:///etc/*", "https://internal.example/*", "http://169.254.169.254/*", "file:///srv/My%20Files/*", "https://fass.example/*"]}
governance: {defaults: {action: forward}}
`, ""),
	}
	denied := []string{
		"file:///etc/passwd", "file:/etc/passwd", "file:etc/passwd", "file:////etc/passwd", `file:\etc\passwd`, `file:///\etc\passwd`,
		" file:///etc/passwd", "\u00a0file:///etc/passwd", "\ufefffile:///etc/passwd\u2003", "\u200bfile:///etc/passwd", "\nfile:///etc/passwd", "f\til\re:///e\ntc/passwd",
		"file://127.0.0.1/etc/passwd", "file://127.1/etc/passwd", "file://localhost./etc/passwd", "file://[::1]/etc/passwd", "file://anything/etc/passwd",
		"file:///etc%252fpasswd", "file:///srv/..%5cetc/passwd", "file:///%65tc/%zz/../passwd", "file:///etc/passwd%00.md", "/etc/passwd", "file:///etc/./x?y#z",
		"https://internal.example", "https:internal.example/x", "https:/internal.example/x", `https:\\internal.example\x`, "https:///internal.example/x",
		"https://internal.example:443/x", "https://internal.example:0443/x", "https://u:p@internal.example/x", "https://internal.example./x",
		"HTTPS://ＩＮＴＥＲＮＡＬ．ｅｘａｍｐｌｅ/x", "https://internal。example/x", "https://inter\u00adnal.example/x", "https://int\u200bernal.example/x", "https://internal%2eexample/x",
		`https://internal.example\@other.example/x`, "https://other.example\\@internal.example/../x",
		"http://2852039166/x", "http://0xa9fea9fe/x", "http://0251.0376.0251.0376/x", "http://169.254.43518/x", "http://[::ffff:169.254.169.254]/x", "http://[::ffff:a9fe:a9fe]:80/x",
		"file:///srv/My%20Files/x", "file:///srv/My Files/x", "file:///srv/My%2520Files/x",
		// Ports of file URLs, and what Python's int accepts as a port.
		"file://localhost:80/etc/passwd", "file://:80/etc/passwd", "https://internal.example:443 /x", "https://internal.example:+4_43/x", "https://internal.example:４４３/x",
		// Text around a URI, and a URI that is decoded before it is parsed.
		"url:file:///etc/passwd", "URL:file:/etc/passwd", "<file:///etc/passwd>", "<URL:file:///etc/passwd>", `"file:///etc/passwd"`, "view-source:https://internal.example/x",
		"jar:file:/etc/passwd!/x", "file%3a///etc/passwd", "file%253A%2F%2F%2Fetc%2Fpasswd", "f%69le:///etc/passwd", "file://localhost%2fetc/passwd",
		"//internal.example/x", `\\internal.example/x`, "https://fa\u00df.example/x", "https://fa\u017f\u017f.example/x", "https://internal.example%00.other.example/x", "https://internal.example%20/x",
	}
	for name, set := range sets {
		for _, uri := range denied {
			if move := moveOn(t, set, uri); move != gate.Deny {
				t.Errorf("%s: %q: got %v", name, uri, move)
			}
		}
		for _, uri := range []string{"file:///srv/x", "file:/srv/etc/passwd", "https://other.example/internal.example/x", "http://169.254.169.2540/", "memo:/etc/passwd", "etc/passwd"} {
			if move := moveOn(t, set, uri); move != gate.Forward {
				t.Errorf("%s: %q: got %v", name, uri, move)
			}
		}
	}
	// What is forwarded by name must be what the name means.
	only := load(t, "schema: 1\ngovernance:\n  defaults: {action: deny}\n  rules: [{match: 'https://good.example/*', action: forward}]\n", "")
	for uri, want := range map[string]gate.Move{
		"https://good.example/x": gate.Forward, `https://good.example/..//x`: gate.Forward,
		`https://evil.example\@good.example/x`: gate.Deny, "https://good.example/@evil.example": gate.Forward, "https:good.example/x": gate.Deny,
	} {
		if move := moveOn(t, only, uri); move != want {
			t.Errorf("%q: got %v, want %v", uri, move, want)
		}
	}
}

func moveOn(t *testing.T, set *Set, uri string) gate.Move {
	t.Helper()
	r, err := set.Rule(context.Background(), fromAgent(t, "fs", "resources/read", fmt.Sprintf(`{"uri":%s}`, quoted(uri))), nil)
	if err != nil {
		t.Fatalf("%q: %v", uri, err)
	}
	return r.Move
}
