package facts

// A tool's name is split into words; the first verb that is known decides what
// it does: `get_deleted_files` reads, `file_delete` does not. Words that may be
// nouns as well count only where they can't be: first in the name, or as what a
// verb like create makes.

type deed uint8

const (
	noDeed deed = iota
	reads       // and so neither acts nor sends
	acts        // deletes, executes, pays, installs or grants
	sends       // sends, posts, publishes, uploads, shares
)

// verbs decide wherever they stand.
var verbs = deeds(map[deed][]string{
	reads: {"get", "list", "read", "search", "find", "fetch", "show", "describe", "view", "check", "count", "query", "lookup", "browse", "watch",
		"inspect", "explain", "preview", "download", "export", "validate", "verify", "summarize", "analyze", "compare", "diff",
		"is", "has", "can", "estimate", "cat", "ls", "grep", "glob", "retrieve", "receive", "detect", "extract", "monitor", "track",
		"subscribe", "unsubscribe", "wait", "dry"},
	acts: {"delete", "remove", "rm", "rmdir", "unlink", "destroy", "drop", "truncate", "purge", "wipe", "erase", "clear", "flushall", "flushdb",
		"discard", "trash", "prune", "uninstall", "kill", "terminate", "shutdown", "reboot", "cancel", "revoke", "detach", "deprovision",
		"exec", "execute", "run", "eval", "evaluate", "invoke", "spawn", "launch", "deploy", "rollback", "trigger", "bash", "shell",
		"powershell", "sudo", "sh", "zsh", "cmd", "repl", "interpreter", "terminal", "kubectl", "terraform", "ansible", "execution", "deletion",
		"pay", "purchase", "buy", "checkout", "refund", "charge", "withdraw", "deposit", "transfer", "sell", "trade", "swap", "donate", "invest",
		"install", "npx", "pip", "brew", "grant", "authorize", "approve", "impersonate", "chmod", "chown", "escalate", "permit"},
	sends: {"send", "publish", "upload", "share", "tweet", "retweet", "broadcast", "reply", "push", "submit", "notify", "announce", "dm",
		"invite", "respond", "post"},
})

// starters decide as the first word of a name.
var starters = deeds(map[deed][]string{
	acts:  {"book", "reserve", "order", "command"},
	sends: {"email", "mail", "message", "comment", "sms", "forward"},
})

// makers are verbs that say what they do only with their object.
var makers = set("create", "make", "do", "add", "set", "update", "put", "new", "start", "process", "place", "assign", "apply", "insert",
	"modify", "change", "write", "issue", "open")

// creators are makers whose object is a thing even where it might be a verb: who
// creates a view or writes a query does not read.
var creators = set("create", "add", "set", "update", "put", "new", "insert", "modify", "change", "write", "assign")

// objects decide after a maker.
var objects = deeds(map[deed][]string{
	acts: {"payment", "payments", "payout", "order", "orders", "booking", "reservation", "permission", "permissions", "role", "roles", "acl",
		"collaborator", "command", "script", "process"},
	sends: {"comment", "message", "email", "mail", "sms", "gist", "webhook", "notification", "newsletter"},
})

// hosted are what a headless agent asks of its host about a command that runs: the
// command was judged when it was started, as terminal/create, and these start none.
var hosted = set("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")

func deeds(lists map[deed][]string) map[string]deed {
	m := map[string]deed{}
	for d, words := range lists {
		for _, w := range words {
			m[w] = d
		}
	}
	return m
}

// deedOf says what a tool of this name does.
func deedOf(name []byte) deed {
	d, _, _ := deedIn(name)
	return d
}

// deedIn also says which word of the name says so.
func deedIn(name []byte) (d deed, w wordList, at int) {
	if hosted[string(name)] {
		return noDeed, w, 0
	}
	w = split(name)
	made, created := false, false
	for i := range w.n {
		this := w.word(i)
		if d = verbs[string(this)]; d == noDeed && i == 0 {
			d = starters[string(this)]
		}
		if d == reads && created {
			d = noDeed
		}
		if d == noDeed && made {
			d = objects[string(this)]
		}
		if d != noDeed {
			return d, w, i
		}
		made = made || makers[string(this)]
		created = created || creators[string(this)]
	}
	return noDeed, w, 0
}

var (
	storeWords = set("secret", "secrets", "password", "passwords", "passwd", "credential", "credentials", "vault", "keychain", "keyring", "keystore",
		"passphrase", "passphrases")
	storePairs = map[string]string{"api": "key", "ssh": "key", "private": "key", "access": "token", "auth": "token", "refresh": "token", "bearer": "token",
		"signing": "key", "encryption": "key", "env": "vars", "environment": "variables"}
)

// namedForSecrets says whether a tool's name says that it deals in secrets.
func namedForSecrets(name []byte) (word string, is bool) {
	w := split(name)
	for i := range w.n {
		this := w.word(i)
		if storeWords[string(this)] {
			return string(this), true
		}
		if i == 0 {
			continue
		}
		second, ok := storePairs[string(w.word(i-1))]
		if ok && (string(this) == second || string(this) == second+"s") {
			return string(w.word(i-1)) + " " + string(this), true
		}
	}
	return "", false
}

// takesAway says whether a tool of this name moves or removes what it names, so
// that naming the folder above something names it, too.
func takesAway(name []byte) bool {
	w := split(name)
	for i := range w.n {
		if removers[string(w.word(i))] {
			return true
		}
	}
	return false
}

var removers = set("delete", "remove", "rm", "rmdir", "destroy", "purge", "wipe", "erase", "trash", "move", "mv", "rename", "replace", "unlink",
	// Written over is as good as taken away.
	"copy", "cp", "extract", "unzip", "untar", "unpack", "restore", "sync")
