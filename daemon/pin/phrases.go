package pin

import (
	"regexp"
	"strings"
)

// phrase is a way to tell a model something that a definition has no business
// telling it. A description may well say what a tool needs and when to use it;
// what is looked for here hides things from the user, speaks over what the model
// was told before, poses as somebody else, or reaches for other tools' calls.
type phrase struct {
	what    string
	needles []string // one of them is in every text that pattern matches: looking for them is quick
	pattern *regexp.Regexp
}

// find returns what matches in folded text.
func (p *phrase) find(folded string) string {
	for _, needle := range p.needles {
		if strings.Contains(folded, needle) {
			return p.pattern.FindString(folded)
		}
	}
	return ""
}

const (
	// no is a prohibition, some a few words between others, the user whoever
	// sits before the agent.
	no   = `(?:do not|don't|dont|never|must not|mustn't|should not|shouldn't|shall not|avoid|without|not to|refrain from)`
	some = `(?:[ \n][\w',:-]+){0,6}?`
	user = `(?:the |any |your )?(?:end[ -])?(?:users?|humans?|person|operator|people|anyone|anybody)\b`
	// told is what a model was told.
	told = `(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|messages?|commands?|constraints?|polic(?:y|ies))\b`
)

var phrases = []phrase{
	// What the user is not to know.
	{orders, []string{"tell", "inform", "notify", "mention", "reveal", "disclos", "alert", "warn"}, regexp.MustCompile(
		`\b` + no + ` (?:ever |first |explicitly )?(?:tell|inform|notify|reveal|disclose|alert|warn|mention|telling|informing|notifying|revealing|disclosing|alerting|warning|mentioning)` + some + `[ \n](?:to )?` + user)},
	{orders, []string{"mention"}, regexp.MustCompile(
		`\b` + no + ` (?:ever )?mention(?:ing)? (?:this|that|it|these|any of|the fact)\b`)},
	{orders, []string{"hide", "conceal", "secret", "confidential", "hidden"}, regexp.MustCompile(
		`\b(?:hide|conceal|keep)` + some + `[ \n](?:secret |hidden |confidential )?from ` + user)},
	{orders, []string{"secretly", "covertly", "quietly", "silently", "discreetly"}, regexp.MustCompile(
		`\b(?:secretly|covertly|quietly|silently|discreetly) (?:send|copy|forward|include|add|append|attach|transmit|upload|bcc|cc|pass|exfiltrate|collect|read|call|run|execute)\b`)},
	{orders, []string{"user", "human"}, regexp.MustCompile(
		`\b` + user + ` (?:must|should|need|does|do|may|shall) ?(?:not|n't)(?: need to)? (?:know|see|notice|be (?:told|informed|aware|notified))\b`)},

	// What it was told before.
	{orders, []string{"ignore", "disregard", "forget"}, regexp.MustCompile(
		`\b(?:ignore|disregard|forget)(?: (?:all|any|every|each|the|your|of|these|those|my|other))*(?: (?:previous|prior|above|earlier|preceding|foregoing|original|former|existing|system|safety|given))+(?: (?:system|user|safety))? ` + told)},
	{orders, []string{"overrid", "overrul", "supersede", "precedence"}, regexp.MustCompile(
		`\b(?:override|overrides|overrule|overrules|supersede|supersedes|takes? precedence over)(?: (?:all|any|every|the|your|of))*(?: (?:previous|prior|earlier|other|existing|original))+ ` + told)},
	{orders, []string{"your system prompt", "your instructions", "your full", "your initial", "your chain", "your entire"}, regexp.MustCompile(
		`\b(?:send|include|pass|provide|repeat|print|write|put|copy|output|return|reveal|append)` + some + `[ \n]your (?:full |entire |initial |own |complete |original )?(?:system prompt|instructions|chain of thought)\b`)},

	// Who speaks.
	{orders, []string{"<"}, regexp.MustCompile(
		`</?(?:important|system|secret|hidden|admin|override|urgent|sys|system[-_]?prompt|system[-_]reminder|system[-_]instructions?)\b(?:[^<>]{0,80})>`)},
	{orders, []string{"[inst]", "[/inst]", "[system]", "[system ", "<|", "<<sys>>"}, regexp.MustCompile(
		`\[/?inst\]|\[system(?: [a-z]+)?\]|<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id)\|>|<<sys>>`)},
	{orders, []string{"system instruction", "system prompt:", "system override", "system message:", "new instruction", "updated instruction", "important instruction", "important note", "important system"}, regexp.MustCompile(
		`\b(?:new|updated|important) (?:system )?(?:instructions?|note) ?for the (?:model|assistant|agent|ai)\b|\b(?:new|updated) instructions? ?:|\bimportant system (?:note|instructions?|message)\b|\bsystem (?:prompt|message|override|instructions?) ?:`)},

	// Other tools, and what goes through them.
	{orders, []string{"before "}, regexp.MustCompile(
		`\b(?:must|always|have to|has to|needs? to|required|mandatory|first|priority)\b[^.\n]{0,100}\bbefore (?:(?:using|calling|invoking|running|executing|performing|making) )?(?:any|every|each|all)(?: of)?(?: the)?(?: other)? (?:tools?|functions?|actions?|operations?|calls?|requests?)\b`)},
	{orders, []string{"before "}, regexp.MustCompile(
		`\bbefore (?:(?:using|calling|invoking|running|executing|performing|making) )?(?:any|every|each|all)(?: of)?(?: the)?(?: [\w-]+)? (?:tools?|functions?|actions?|operations?|calls?|requests?)\b[^.\n]{0,60}\b(?:you|the (?:agent|assistant|model)) (?:must|should|have to|has to|needs? to)\b`)},
	{orders, []string{"request", "message", "query", "queries", "prompt", "turn"}, regexp.MustCompile(
		`\b(?:for|on|with|at|to|in) (?:any|every|each|all)(?: user)? (?:requests?|messages?|query|queries|prompts?|turns?)\b[^.\n]{0,80}\b(?:call|use|invoke|run) this (?:tool|function) (?:first|before)\b`)},
	{orders, []string{"mail", "message", "payment", "transfer", "request", "file", "data", "result"}, regexp.MustCompile(
		`\b(?:all|every|each|any) (?:outgoing |sent |other )?(?:e-?mails?|messages?|payments?|transfers?|files?|data|results?) (?:must|should|have to|has to|needs? to) (?:always |also |first )?(?:be )?(?:sent|forwarded|redirected|routed|copied|bcc|cc|bcc'd|cc'd|go) (?:to|through)\b`)},
	{orders, []string{"conversation", "chat history", "chat log"}, regexp.MustCompile(
		`\b(?:send|include|pass|provide|put|copy|append|attach|upload|forward)` + some + `[ \n](?:(?:full|entire|whole|complete|all) )(?:of )?(?:the |this |our |your )?(?:prior |previous )?(?:conversation|chat)\b`)},

	// Where credentials are.
	{credentials, []string{".ssh", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*(?:\.ssh[/\\][\w.*-]*|\bid_(?:rsa|dsa|ecdsa|ed25519)\b)`)},
	{credentials, []string{"credentials", "credentials.json"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*(?:[/\\]\.?credentials(?:\.\w+)?\b|\.git-credentials\b|\bapplication_default_credentials\.json\b)`)},
	{credentials, []string{".gnupg", ".kube", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".password-store", ".docker/config", ".vault-token", "wallet.dat", "login.keychain"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*(?:\.gnupg\b|\.kube[/\\]config\b|\.netrc\b|\.npmrc\b|\.pypirc\b|\.pgpass\b|\.password-store\b|\.docker[/\\]config\.json\b|\.vault-token\b|\bwallet\.dat\b|\blogin\.keychain\b)`)},
	{credentials, []string{"/etc/", "/proc/", "/run/secrets"}, regexp.MustCompile(
		`/etc/(?:passwd|shadow|gshadow|sudoers|ssl/private)\b|/proc/(?:self|\d+|\*)/environ\b|/run/secrets\b`)},
	{credentials, []string{"mcp.json", "mcp_config.json", "desktop_config.json", ".claude.json", ".claude/settings", "mcp_settings.json"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*[/\\]\.?mcp(?:_config|_settings)?\.json\b|\bclaude_desktop_config\.json\b|\.claude\.json\b|\.claude[/\\]settings[\w.]*\.json\b`)},
	{credentials, []string{".env"}, regexp.MustCompile(
		"(?:[~\\w.-]*[/\\\\]|\\b(?:read|open|cat|send|include|contents? of|content from)(?: the| your| a| all| any)? [\"'`]?)\\.env\\b[\\w.]*")},
}
