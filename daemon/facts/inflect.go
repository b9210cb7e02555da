package facts

import "bytes"

// derived returns the meaning of a word that is derived from a verb (`deletes`, `deleting`,
// `deleter`, `deletefile`) or that has a meaning together with the word before it. A form that
// may be a noun, too, counts only where it cannot be one: `sends` at the beginning, `sender` at
// the end.
func (n *namedDeeds) derived(w *wordList, i int) deed {
	this := w.word(i)
	if i > 0 {
		var pair [96 + 1]byte
		if d := pairs[string(append(append(append(pair[:0], w.word(i-1)...), ' '), this...))]; d != noDeed && !(people[string(this)] && describes(w, i)) {
			return d
		}
	}
	if verb := verbIn(this); verb != "" {
		switch last := this[len(this)-1]; {
		case gluedVerb(this) != "":
		case last == 's' && i > 0 && !joins[string(w.word(i-1))]:
			return noDeed
		case last == 'r' && (n.made || i < w.n-1 && !helpers[string(w.word(i+1))]):
			return noDeed
		}
		return verbOf([]byte(verb))
	}
	if i == w.n-1 && n.made && string(this) == "public" {
		return acts // make_repository_public
	}
	return noDeed
}

// describes reports whether the i-th word only qualifies the next one, as user does in
// create_user_story.
func describes(w *wordList, i int) bool {
	next := string(w.word(i + 1))
	return next != "" && !helpers[next] && !joins[next] && !prepositions[next]
}

var (
	people       = set("user", "users", "member", "members", "admin", "admins", "owner", "account")
	prepositions = set("to", "in", "into", "on", "as", "for", "with", "from", "at", "by")
)

// helpers follow the name of an agent noun and add no meaning.
var helpers = set("tool", "agent", "service", "server", "client", "helper", "bot", "plugin", "mcp", "v1", "v2")

// noVerbs are words that look like forms of a verb but are not, or that denote a person.
var noVerbs = set("banner", "merger", "buyer", "seller", "payer", "investor", "approver", "evening")

// verbOf returns what a verb means if it acts or sends, and noDeed otherwise.
func verbOf(word []byte) deed {
	if d := verbs[string(word)]; d > reads {
		return d
	}
	return gluedVerbs[string(word)]
}

// gluedVerbs are additional verbs that count when their object is attached without a separator.
var gluedVerbs = deeds(map[deed][]string{
	acts:  {"run", "launch", "deploy", "install", "transfer", "grant", "charge", "refund"},
	sends: {"share", "forward", "push"},
})

// verbIn returns the verb of which word is a form, or that is attached to its object in word, if
// the verb acts or sends. Forms are the third person, -ing, -er and -or (`deletes`, `stopping`,
// `notifier`). The verb itself is not a form.
func verbIn(word []byte) string {
	const longest = 48
	if len(word) < 4 || len(word) > longest || noVerbs[string(word)] || verbs[string(word)] != noDeed {
		return ""
	}
	if trimmed := bytes.TrimRight(word, "0123456789"); len(trimmed) < len(word) { // delete2
		if verbs[string(trimmed)] > reads {
			return string(trimmed)
		}
		return verbIn(trimmed)
	}
	for _, ending := range endings {
		if stem, ok := bytes.CutSuffix(word, ending); ok {
			if verb := infinitive(stem); verb != "" {
				return verb
			}
		}
	}
	return gluedVerb(word)
}

var endings = [][]byte{[]byte("s"), []byte("es"), []byte("ing"), []byte("er"), []byte("or")}

// infinitive returns the verb of a stem: delete for `delet`, stop for `stopp`, notify for
// `notifi`.
func infinitive(stem []byte) string {
	n := len(stem)
	if n < 3 {
		return ""
	}
	var buf [64]byte
	for _, ending := range []string{"e", "", "y"} {
		verb := append(append(buf[:0], stem...), ending...)
		if ending == "y" {
			if stem[n-1] != 'i' {
				continue
			}
			verb = append(verb[:n-1], 'y')
		}
		if verbs[string(verb)] > reads {
			return string(verb)
		}
	}
	if stem[n-1] == stem[n-2] && stem[n-1] != 'e' && verbs[string(stem[:n-1])] > reads {
		return string(stem[:n-1])
	}
	return ""
}

// gluedVerb returns the verb of a word that consists only of a verb and its objects, in either
// order: `deletefile`, `filedelete`, `deleteallusers`.
func gluedVerb(word []byte) string {
	for i := 2; i <= len(word)-2; i++ {
		if verbOf(word[:i]) != noDeed && areObjects(word[i:]) {
			return string(word[:i])
		}
		if verbs[string(word[i:])] > reads && areObjects(word[:i]) {
			return string(word[i:])
		}
	}
	return ""
}

// areObjects reports whether text is a sequence of words for objects of verbs.
func areObjects(text []byte) bool {
	for i := 2; i <= len(text); i++ {
		if head := text[:i]; !gluedObjects[string(head)] && !gluedObjects[string(bytes.TrimSuffix(head, []byte("s")))] {
			continue
		}
		if i == len(text) || areObjects(text[i:]) {
			return true
		}
	}
	return false
}

var gluedObjects = set("file", "folder", "dir", "directory", "directories", "path", "tree", "mail", "email", "message", "msg", "sms", "user", "account",
	"member", "db", "database", "table", "row", "column", "record", "record", "item", "object", "entry", "entries", "data", "note", "page", "post", "event", "task",
	"issue", "repo", "repository", "branch", "image", "container", "pod", "instance", "server", "service", "vm", "disk", "drive", "volume", "bucket", "code",
	"command", "cmd", "script", "query", "process", "job", "payment", "money", "fund", "order", "invoice", "request", "notification", "token", "document", "doc",
	"report", "comment", "package", "cache", "collection", "contact", "tweet", "password", "bill", "card", "stock", "all", "everything", "the", "my", "shell", "program", "app")
