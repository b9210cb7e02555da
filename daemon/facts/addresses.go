package facts

// These tables say what the name of a member implies about a place in its value.

var addressWords = set("to", "cc", "bcc", "recipient", "recipients", "email", "emails", "mail", "mailbox", "address", "addresses",
	"attendee", "attendees", "participant", "participants", "invitee", "invitees", "guest", "guests", "member", "members",
	"collaborator", "collaborators", "contact", "contacts", "url", "urls", "uri", "uris", "link", "links", "href", "host", "hosts",
	"hostname", "domain", "endpoint", "webhook", "callback", "server", "site", "website", "remote", "origin", "destination",
	"iban", "account", "accounts", "acct", "payee", "beneficiary", "phone", "mobile", "tel", "wallet", "card", "routing", "bank")

// isAddressName reports whether a word in the name of a member says that its value is a
// destination: to, webhook_url, recipientAccount.
func isAddressName(name []byte) bool {
	w := split(name)
	return w.has(addressWords)
}

var (
	counterWords = set("id", "ids", "ts", "timestamp", "time", "date", "at", "on", "sha", "hash", "version", "offset", "cursor", "size",
		"limit", "amount", "price", "total", "count", "since", "until", "after", "before", "start", "end", "created", "updated")
	ownedWords = set("chat", "channel", "user", "recipient", "account", "contact", "customer", "phone", "conversation", "room", "group", "person")
)

// isCounter reports whether the name of a member says that a number in it counts, dates or
// identifies something to which nothing can be sent.
func isCounter(name []byte) bool {
	w := split(name)
	return counterWords[string(w.word(-1))] && !w.has(ownedWords)
}

// publicHosts are the hosts to which prose may point although a server named them. Only their
// operators see the requests to them, and texts about software are full of their names.
var publicHosts = set("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "stackoverflow.com", "npmjs.com", "pypi.org", "crates.io",
	"docs.rs", "pkg.go.dev", "go.dev", "golang.org", "rust-lang.org", "doc.rust-lang.org", "python.org", "docs.python.org", "nodejs.org",
	"developer.mozilla.org", "wikipedia.org", "en.wikipedia.org", "w3.org", "ietf.org", "rfc-editor.org", "kernel.org", "debian.org",
	"apache.org", "opensource.org", "semver.org", "keepachangelog.com", "conventionalcommits.org", "json-schema.org", "schema.org",
	"kubernetes.io", "docker.com", "docs.docker.com", "postgresql.org", "sqlite.org", "modelcontextprotocol.io")
