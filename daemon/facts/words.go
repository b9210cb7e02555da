package facts

import "strings"

// The name of a tool is split into words. A word that acts decides anywhere in the name;
// otherwise, one that sends; otherwise, the first one that reads: `get_and_delete` deletes, and
// `get_deleted_files` reads. Words that may be nouns, too, count only where they cannot be nouns:
// the words after a verb that reads name what is read, up to a word such as and
// (`get_workflow_run` reads, `get_and_run` runs).

type deed uint8

const (
	noDeed deed = iota
	reads       // neither acts nor sends
	sends       // sends, posts, publishes, uploads, shares, or makes a request to a host
	acts        // deletes, executes, pays, installs, grants, or stops something
)

// verbs decide anywhere in a name.
var verbs = deeds(map[deed][]string{
	reads: {"get", "list", "read", "search", "find", "fetch", "show", "describe", "view", "check", "count", "query", "lookup", "browse", "watch",
		"inspect", "explain", "preview", "download", "validate", "verify", "summarize", "analyze", "compare", "diff",
		"is", "has", "can", "estimate", "cat", "ls", "grep", "glob", "retrieve", "receive", "detect", "extract", "monitor", "track",
		"subscribe", "unsubscribe", "wait", "dry"},
	acts: {"delete", "remove", "rm", "rmdir", "unlink", "destroy", "drop", "truncate", "purge", "wipe", "erase", "clear", "flushall", "flushdb",
		"discard", "trash", "prune", "uninstall", "kill", "killall", "pkill", "terminate", "shutdown", "reboot", "cancel", "revoke", "detach", "deprovision",
		"overwrite", "shred", "disable", "deactivate", "suspend", "ban", "halt", "abort", "stop", "restart", "reset", "merge", "revert",
		"exec", "execute", "eval", "evaluate", "invoke", "spawn", "rollback", "sudo", "execution", "deletion",
		"withdraw", "sell", "donate", "invest", "pay", "buy", "npx", "uvx", "authorize", "approve", "impersonate", "chmod", "chown", "escalate",
		"del", "rmtree", "deltree", "nuke", "expunge", "obliterate", "dismantle", "flush", "evict", "expel", "drain", "cordon", "undeploy", "unpublish",
		"unregister", "deregister", "teardown", "decommission", "poweroff", "taskkill", "mkfs", "fdisk", "umount", "unmount", "execve", "popen", "subprocess",
		"migrate", "remit", "reimburse", "disburse", "repay", "disarm"},
	sends: {"send", "publish", "upload", "tweet", "retweet", "broadcast", "submit", "notify", "announce", "invite", "respond",
		"transmit", "relay", "deliver", "dispatch", "export", "exfiltrate", "exfil", "curl", "wget"},
}, inLatinLetters)

// nouns decide like verbs, except in what is read.
var nouns = deeds(map[deed][]string{
	acts: {"run", "launch", "deploy", "trigger", "transfer", "purchase", "checkout", "refund", "charge", "deposit", "trade", "swap", "install",
		"grant", "permit", "format", "bash", "shell", "powershell", "pwsh", "sh", "zsh", "cmd", "repl", "interpreter", "terminal", "python", "python3",
		"nodejs", "deno", "bun", "perl", "ruby", "php", "javascript", "osascript", "applescript", "kubectl", "helm", "terraform", "ansible", "docker", "podman",
		"ssh", "scp", "rsync", "sftp", "systemctl", "crontab", "sql", "psql", "mysql", "pip", "brew", "apt", "rerun", "redeploy", "removal", "destruction",
		"cancellation", "termination", "invocation", "revocation", "deployer", "installer", "launcher", "payout", "cleanup", "adduser", "useradd", "usermod"},
	sends: {"share", "reply", "push", "dm", "post", "webhook", "repost", "reshare", "fax", "dial", "smtp", "netcat", "telnet", "rclone", "mailer", "emailer",
		"forwarder", "transmission", "postmessage", "postcomment"},
})

// starters decide as the first word of a name.
var starters = deeds(map[deed][]string{
	acts:  {"book", "reserve", "order", "command", "node", "empty", "freeze", "kick"},
	sends: {"email", "mail", "message", "comment", "sms", "forward"},
})

// makers are verbs that have a meaning only together with their object.
var makers = set("create", "make", "do", "add", "set", "update", "put", "new", "start", "process", "place", "assign", "apply", "insert",
	"modify", "change", "write", "issue", "open", "call", "resend", "http", "https", "api", "rest", "raw", "web", "url")

// creators are makers whose object is a thing even if it could be a verb: to create a view or to
// write a query is not to read.
var creators = set("create", "add", "set", "update", "put", "new", "insert", "modify", "change", "write", "assign")

// changers are makers that modify what exists: to change an order is not to place one.
var changers = set("set", "update", "modify", "change", "write")

// objects decide after a maker.
var objects = deeds(map[deed][]string{
	acts: {"payment", "payments", "payout", "permission", "permissions", "role", "roles", "acl", "collaborator", "command", "script", "process"},
	sends: {"comment", "message", "email", "mail", "sms", "gist", "webhook", "notification", "newsletter",
		"api", "endpoint", "request", "requests", "call", "put", "patch"},
})

// placed are objects that decide after makers other than changers.
var placed = set("order", "orders", "booking", "reservation")

// joins are words after which a name starts over.
var joins = set("and", "or", "then", "plus")

// pairs are two adjacent words that decide together but not alone.
var pairs = func() map[string]deed {
	m := map[string]deed{}
	for _, p := range []struct {
		deed          deed
		first, second string
	}{
		{acts, "k8s kube kubernetes tf tofu pulumi stack", "apply patch scale up"},
		{acts, "apply", "manifest manifests migration migrations terraform playbook chart stack yaml"},
		{acts, "alter", "table schema column index database user role"},
		{acts, "move wire send", "money funds cash eth btc bitcoin crypto"},
		{acts, "sign send raw broadcast", "transaction transactions tx"},
		{acts, "open unlock", "door doors gate garage lock locks safe car vehicle trunk"},
		{acts, "unlock", "account accounts user users device phone bootloader file folder"},
		{acts, "add", "user users member members admin admins owner"},
		{acts, "create", "user users admin admins"},
		{acts, "make set", "admin owner"},
		{acts, "user", "add create"},
		{acts, "promote elevate lock block", "user users account accounts"},
		{acts, "assume attach put set", "role policy"},
		{acts, "iam bucket role", "policy"},
		{acts, "clean", "up all cache disk folder dir files"},
		{acts, "partition", "disk drive"},
		{acts, "scale", "deployment deployments service statefulset"},
		{acts, "restore", "db database backup snapshot"},
		{acts, "make set go mark", "public"},
		{acts, "tear shut take wind", "down"},
		{acts, "power turn switch", "off"},
		{acts, "close", "account accounts"},
		{acts, "roll", "back"},
		{sends, "s3 gcs ftp blob bucket gsutil", "put copy cp mv sync write"},
		{sends, "put", "object objects blob blobs"},
		{sends, "to", "s3 gcs ftp bucket"},
		{sends, "phone", "call"},
		{sends, "call", "phone number"},
	} {
		for first := range strings.FieldsSeq(p.first) {
			for second := range strings.FieldsSeq(p.second) {
				m[first+" "+second] = p.deed
			}
		}
	}
	return m
}()

// alone are names of tools that are nothing but an HTTP client or a program that runs what it is
// given.
var alone = deeds(map[deed][]string{
	sends: {"http", "https", "request", "requests", "axios", "httpie", "nc"},
	acts:  {"git", "gh", "npm", "pnpm", "yarn", "aws", "gcloud", "az", "lua", "system", "unlock"},
})

// queues are words before request that make it an object in a program instead of a message to a
// host.
var queues = set("pull", "merge", "feature", "change", "access", "review", "service", "payment", "refund", "support")

// hosted are requests of a headless agent to its host about a running command. The command was
// judged when it was started, as terminal/create; these requests start none.
var hosted = set("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")

func deeds(lists ...map[deed][]string) map[string]deed {
	m := map[string]deed{}
	for _, list := range lists {
		for d, words := range list {
			for _, w := range words {
				m[w] = d
			}
		}
	}
	return m
}

var (
	storeWords = set("secret", "secrets", "password", "passwords", "passwd", "credential", "credentials", "vault", "keychain", "keyring", "keystore",
		"passphrase", "passphrases")
	storePairs = map[string]string{"api": "key", "ssh": "key", "private": "key", "access": "token", "auth": "token", "refresh": "token", "bearer": "token",
		"signing": "key", "encryption": "key", "env": "vars", "environment": "variables"}
)

// namedForSecrets reports whether the name of a tool says that it deals with secrets.
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

// takesAway reports whether the name of a tool says that it moves or removes what it names. Then
// naming a folder also names everything in it.
func takesAway(name []byte) bool {
	w := split(name)
	for i := range w.n {
		if word := w.word(i); removers[string(word)] || removers[verbIn(word)] {
			return true
		}
	}
	return false
}

var removers = set("delete", "remove", "rm", "rmdir", "destroy", "purge", "wipe", "erase", "trash", "move", "mv", "rename", "replace", "unlink",
	"del", "rmtree", "deltree", "nuke", "empty", "shred", "expunge", "obliterate",
	// Overwriting is equivalent to removing.
	"copy", "cp", "extract", "unzip", "untar", "unpack", "restore", "sync")
