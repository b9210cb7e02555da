package facts

import (
	"bytes"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

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

// verbs decide anywhere in a name. To cancel is none of them: it withdraws what was ordered before, as
// people have agents do all day, and a server that does more can say that it is destructive.
var verbs = deeds(map[deed][]string{
	reads: {"get", "list", "read", "search", "find", "fetch", "show", "describe", "view", "check", "count", "query", "lookup", "browse", "watch",
		"inspect", "explain", "preview", "download", "validate", "verify", "summarize", "analyze", "compare", "diff",
		"is", "has", "can", "estimate", "cat", "ls", "grep", "glob", "retrieve", "receive", "detect", "extract", "monitor", "track",
		"subscribe", "unsubscribe", "wait", "dry", "calculate", "forecast", "predict", "geocode"},
	acts: {"delete", "remove", "rm", "rmdir", "unlink", "destroy", "drop", "truncate", "purge", "wipe", "erase", "clear", "flushall", "flushdb",
		"discard", "trash", "prune", "uninstall", "kill", "killall", "pkill", "terminate", "shutdown", "reboot", "revoke", "detach", "deprovision",
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
		"termination", "invocation", "revocation", "deployer", "installer", "launcher", "payout", "cleanup", "adduser", "useradd", "usermod"},
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

// toolDeeds is what the name of a tool says about what the tool does.
type toolDeeds struct {
	deed    deed
	sends   bool // may be set in addition to acts
	words   wordList
	at      int           // index of the word for deed
	sentAt  int           // index of the word for sends
	foreign [acts]*string // words in another language for sends and acts
}

// by returns the word of the name that stands for d.
func (s *toolDeeds) by(d deed) string {
	switch word := s.foreign[d-1]; {
	case word != nil:
		return *word
	case d == sends:
		return string(s.words.word(s.sentAt))
	}
	return string(s.words.word(s.at))
}

// deedsIn returns what a tool with this name does. clean is the name without disguises.
func deedsIn(name string, clean []byte) toolDeeds {
	s := deedsOf(clean)
	if display.IsASCII(clean) && display.IsASCII(name) {
		return s
	}
	for d, word := range foreignIn(name) {
		switch {
		case word == nil:
		case deed(d+1) == sends && !s.sends:
			s.sends, s.deed, s.foreign[d] = true, max(s.deed, sends), word
		case deed(d+1) == acts && s.deed != acts:
			s.deed, s.foreign[d] = acts, word
		}
	}
	return s
}

// deedsOf is deedsIn for a cleaned name, by words in Latin letters.
func deedsOf(name []byte) toolDeeds {
	var s toolDeeds
	if hosted[string(name)] {
		return s
	}
	s.words = split(name)
	if d := alone[string(s.words.word(0))]; d > 0 && s.words.n == 1 {
		return toolDeeds{deed: d, sends: d == sends, words: s.words}
	}
	var n namedDeeds
	for i := range s.words.n {
		this := n.word(&s.words, i)
		if this == sends && !s.sends {
			s.sends, s.sentAt = true, i
		}
		if this > s.deed {
			s.deed, s.at = this, i
		}
	}
	return s
}

// namedDeeds holds the state while the words of a name are interpreted.
type namedDeeds struct {
	made, created, changed bool // whether such a word has occurred
	reading                bool // the words that follow name what is read
}

// word returns the meaning of the i-th word, given the words before it.
func (n *namedDeeds) word(w *wordList, i int) deed {
	this := w.word(i)
	d := verbs[string(this)]
	switch {
	case d == reads && n.created:
		d = noDeed
	case d == noDeed && !n.reading && !handsOver(w, i):
		d = nouns[string(this)]
	}
	if d == noDeed && i == 0 {
		d = starters[string(this)]
	}
	if d == noDeed && !n.reading {
		d = n.derived(w, i)
	}
	if d == noDeed && n.made && !(i > 0 && queues[string(w.word(i-1))]) {
		if d = objects[string(this)]; d == noDeed && placed[string(this)] && !n.changed {
			d = acts
		}
	}
	n.reading = (n.reading || d == reads) && !joins[string(this)]
	n.made = n.made || makers[string(this)]
	n.created = n.created || creators[string(this)]
	n.changed = n.changed || changers[string(this)]
	return d
}

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

// staff are who a conversation is handed over to: transfer_to_agent moves nothing of value.
var staff = set("human", "humans", "live", "agent", "agents", "operator", "operators", "representative", "representatives", "supervisor", "support", "staff", "person")

// handsOver reports whether the i-th word is a transfer to staff alone.
func handsOver(w *wordList, i int) bool {
	if string(w.word(i)) != "transfer" || string(w.word(i+1)) != "to" || i+2 >= w.n {
		return false
	}
	for j := i + 2; j < w.n; j++ {
		if !staff[string(w.word(j))] {
			return false
		}
	}
	return true
}

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

// Tools have names in languages other than English, too. These are the most common verbs of some
// widely spoken languages. Verbs in Latin letters are matched as words, like English ones;
// accents are already removed from names. Other scripts do not separate words reliably, so their
// verbs match anywhere in a name.

var inLatinLetters = map[deed][]string{
	acts: strings.Fields(`eliminar elimina elimine borrar borra borre suprimir ejecutar ejecuta pagar comprar transferir instalar desinstalar apagar apaga apague
		detener reiniciar vaciar destruir
		excluir exclui exclua remover deletar executar rodar desligar esvaziar
		supprimer supprime supprimez effacer efface detruire executer executez lancer acheter desinstaller arreter redemarrer vider
		loschen losche loeschen loesche entfernen entferne ausfuhren ausfuehren bezahlen uberweisen ueberweisen kaufen installieren deinstallieren
		stoppen beenden herunterfahren
		eliminare cancellare cancella rimuovere eseguire esegui pagare comprare acquistare installare disinstallare svuotare`),
	sends: strings.Fields(`enviar envia envie mandar publicar compartir compartilhar encaminhar
		envoyer envoie envoyez publier partager
		senden sende versenden verschicken schicken veroffentlichen veroeffentlichen hochladen
		inviare invia spedire pubblicare condividere`),
}

// otherLetters holds verbs, or their common stems, indexed by deed - 1.
var otherLetters = [acts]string{
	acts - 1: `删除 刪除 移除 清空 卸载 卸載 执行 執行 运行 運行 支付 付款 转账 轉帳 购买 購買 安装 安裝 部署 停止 重启 重啟 授权 授權 销毁 銷毀
		削除 消去 実行 支払 購入 インストール 再起動
		삭제 제거 실행 결제 송금 구매 설치 중지
		удали выполни запусти оплати купи установи останови очисти стереть`,
	sends - 1: `发送 發送 发布 發布 上传 上傳 分享 送信 投稿 公開 アップロード 보내 전송 발송 게시 업로드
		отправить отправь отправля опубликова опубликуй`,
}

// done are affixes that turn such a verb into a past participle: 已删除 means deleted, and so do 削除済
// and 삭제된.
var done = []struct{ before, behind string }{{"已", ""}, {"", "済"}, {"", "된"}}

type foreignWord struct {
	deed deed
	word string // as written
	read string // as normalized by letters
}

var foreignWords = sync.OnceValue(func() []foreignWord {
	var all []foreignWord
	for i, words := range otherLetters {
		for word := range strings.FieldsSeq(words) {
			all = append(all, foreignWord{deed(i + 1), word, letters(word)})
		}
	}
	return all
})

// letters normalizes a name: lower case, without disguises.
func letters(name string) string {
	return norm.NFKC.String(string(new(cleaner).clean([]byte(strings.ToLower(norm.NFKC.String(name))))))
}

// foreignIn returns the verbs of otherLetters in a name, indexed by deed - 1.
func foreignIn(name string) (found [acts]*string) {
	const longest = 1024 // the gate refuses longer names
	name = letters(name[:min(len(name), longest)])
	for _, d := range done {
		if !strings.Contains(name, d.before+d.behind) {
			continue
		}
		for _, w := range foreignWords() {
			name = strings.ReplaceAll(name, d.before+w.read+d.behind, " ")
		}
	}
	for i := range foreignWords() {
		if w := &foreignWords()[i]; found[w.deed-1] == nil && strings.Contains(name, w.read) {
			found[w.deed-1] = &w.word
		}
	}
	return found
}

// toolName is what the name of a tool says about the tool.
type toolName struct {
	said    toolDeeds
	secrets string // the words that say that it returns secrets, or empty
	removes bool   // it moves or removes what it names
	env     bool   // it is about variables of the environment
}

var environment = set("env", "getenv", "printenv", "environ", "environment")

func readToolName(name string) *toolName {
	clean := new(cleaner).clean([]byte(name))
	t := &toolName{said: deedsIn(name, clean)}
	t.secrets, _ = namedForSecrets(clean)
	words := split(clean)
	t.env = words.has(environment)
	t.removes = takesAway(clean) || t.said.foreign[acts-1] != nil
	return t
}

// toolNames caches toolName by name. It is safe for concurrent use.
type toolNames struct {
	mu    sync.RWMutex // guards known
	known map[string]*toolName
}

const (
	mostToolNames   = 1024
	longestToolName = 256 // bytes; longer names are not cached
)

func (n *toolNames) of(name string) *toolName {
	n.mu.RLock()
	t := n.known[name]
	n.mu.RUnlock()
	if t != nil {
		return t
	}
	t = readToolName(name)
	if len(name) > longestToolName {
		return t
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= mostToolNames {
		n.known = map[string]*toolName{}
	}
	n.known[name] = t
	return t
}

func (in *inspection) toolName() {
	t := in.finder.names.of(in.tool)
	if t.said.deed == acts {
		in.add(gate.FactActs, "its name says "+t.said.by(acts), "")
	}
	if t.said.sends {
		in.add(gate.FactSends, "its name says "+t.said.by(sends), "")
	}
	if t.secrets != "" {
		in.add(gate.FactSecretPlace, "its name says "+t.secrets, "")
	}
	in.removes, in.env = t.removes, t.env
}

// isSecretVariable reports whether name is that of a variable of the environment that holds a
// credential, or an address that has one in it.
func isSecretVariable(name []byte) bool {
	if len(name) == 0 || len(bytes.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")) > 0 {
		return false
	}
	if kind, _ := judgeName(name); kind != plainName {
		return true
	}
	w := split(name)
	switch string(w.word(-1)) {
	case "dsn":
		return true
	case "url", "uri", "string":
		return w.has(servers)
	}
	return false
}

// servers are what is reached by an address with a password in it.
var servers = set("database", "db", "postgres", "postgresql", "pg", "mysql", "mariadb", "mongo", "mongodb", "redis", "amqp", "rabbitmq", "smtp", "connection")
