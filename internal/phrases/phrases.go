// Package phrases finds text that tries to steer a model, in the definitions of tools and in
// their results.
package phrases

import (
	"regexp"
	"slices"
	"strings"
)

// Kind describes what a phrase does.
type Kind uint8

const (
	// Orders hide things from the user, override the model's instructions, pose as somebody else,
	// or interfere with calls of other tools.
	Orders Kind = iota + 1
	// Credentials name a place where credentials are stored.
	Credentials
)

// phrase is one way to give a model orders that a definition has no reason to give. A definition
// may well say what a tool needs and when to use it.
type phrase struct {
	what    Kind
	needles []string // every match of pattern contains one of them at the start of a word; a quick first test
	pattern *regexp.Regexp
	also    [][]string // near a match there must be one word of each group
}

const (
	// reach is how far from a needle a match is searched for, in bytes.
	reach = 384
	// ahead is how many bytes are searched at once for the words in phrase.also. Mostly none is
	// found.
	ahead = 16 << 10
)

// Find calls found with the first match of each phrase in text until found returns false. text
// must be folded as by display.Folded. budget bounds the number of bytes on which expressions are
// tried; Find returns false when it is exhausted.
func Find(text string, budget *int, found func(what Kind, quote string) (more bool)) (whole bool) {
	var tried [64]int // by phrase: needles before this offset are done
	var seen [64]int  // by phrase: the words in also are known to occur before this offset
	for i := 0; i < len(text); i++ {
		hits := &byFirst[text[i]]
		if hits.second == 0 || i+1 < len(text) && hits.second&(1<<(text[i+1]&31)) == 0 || isWord(text[i]) && i > 0 && isWord(text[i-1]) {
			continue
		}
		for _, h := range hits.all {
			if i < tried[h.phrase] || !strings.HasPrefix(text[i:], h.needle) {
				continue
			}
			p := &list[h.phrase]
			if i >= seen[h.phrase] {
				seen[h.phrase] = i + ahead
				if !p.near(text[max(0, i-reach):min(len(text), i+ahead+2*reach)]) {
					tried[h.phrase] = i + ahead
					continue
				}
			}
			near := text[max(0, i-reach):min(len(text), i+2*reach)]
			tried[h.phrase] = i + reach
			if !p.near(near) {
				continue
			}
			if *budget -= len(near); *budget < 0 {
				return false
			}
			quote := p.pattern.FindString(near)
			if quote == "" {
				continue
			}
			tried[h.phrase] = len(text)
			if !found(p.what, quote) {
				return true
			}
		}
	}
	return true
}

// near reports whether text has a word of each group in p.also.
func (p *phrase) near(text string) bool {
	return !slices.ContainsFunc(p.also, func(any []string) bool {
		return !slices.ContainsFunc(any, func(word string) bool { return strings.Contains(text, word) })
	})
}

func isWord(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// hit is a needle and the index of its phrase in list.
type hit struct {
	needle string
	phrase int
}

// hits are the needles that begin with the same byte. second is a filter: it has a bit for the
// low five bits of each second byte, so that most words are skipped at once.
type hits struct {
	all    []hit
	second uint32
}

// byFirst indexes the needles by their first byte.
var byFirst = func() (table [256]hits) {
	for i := range list {
		for _, needle := range list[i].needles {
			h := &table[needle[0]]
			h.all = append(h.all, hit{needle, i})
			if len(needle) == 1 {
				h.second = ^uint32(0)
				continue
			}
			h.second |= 1 << (needle[1] & 31)
		}
	}
	return table
}()

const (
	// no matches a prohibition, some matches up to six words, user matches the person who uses
	// the agent.
	no   = `(?:do not|don't|dont|never|must not|mustn't|should not|shouldn't|shall not|avoid|without|not to|refrain from)`
	some = `(?:[ \n][\w',:-]+){0,6}?`
	user = `(?:the |any |your )?(?:end[ -])?(?:users?|humans?|person|operator|people|anyone|anybody)\b`
	// told matches what a model has been told.
	told = `(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|messages?|commands?|constraints?|polic(?:y|ies))\b`
)

var list = []phrase{
	// Hide something from the user.
	{Orders, []string{"tell", "inform", "notify", "mention", "reveal", "disclos", "alert", "warn"}, regexp.MustCompile(
		`\b` + no + ` (?:ever |first |explicitly )?(?:tell|inform|notify|reveal|disclose|alert|warn|mention|telling|informing|notifying|revealing|disclosing|alerting|warning|mentioning)` + some + `[ \n](?:to )?` + user), [][]string{{"not", "n't", "dont", "never", "avoid", "without", "refrain"}, {"user", "human", "person", "operator", "people", "anyone", "anybody"}}},
	{Orders, []string{"mention"}, regexp.MustCompile(
		`\b` + no + ` (?:ever )?mention(?:ing)? (?:this|that|it|these|any of|the fact)\b`), [][]string{{"not", "n't", "dont", "never", "avoid", "without", "refrain"}}},
	{Orders, []string{"hide", "conceal", "secret", "confidential", "hidden"}, regexp.MustCompile(
		`\b(?:hide|conceal|keep)` + some + `[ \n](?:secret |hidden |confidential )?from ` + user), [][]string{{"from"}, {"user", "human", "person", "operator", "people", "anyone", "anybody"}}},
	{Orders, []string{"secretly", "covertly", "quietly", "silently", "discreetly"}, regexp.MustCompile(
		`\b(?:secretly|covertly|quietly|silently|discreetly) (?:send|copy|forward|include|add|append|attach|transmit|upload|bcc|cc|pass|exfiltrate|collect|read|call|run|execute)\b`), nil},
	{Orders, []string{"user", "human"}, regexp.MustCompile(
		`\b` + user + ` (?:must|should|need|does|do|may|shall) ?(?:not|n't)(?: need to)? (?:know|see|notice|be (?:told|informed|aware|notified))\b`), [][]string{{"not", "n't"}, {"know", "see", "notice", "told", "informed", "aware", "notified"}}},

	// Override earlier instructions.
	{Orders, []string{"ignore", "disregard", "forget"}, regexp.MustCompile(
		`\b(?:ignore|disregard|forget)(?: (?:all|any|every|each|the|your|of|these|those|my|other))*(?: (?:previous|prior|above|earlier|preceding|foregoing|original|former|existing|system|safety|given))+(?: (?:system|user|safety))? ` + told), [][]string{{"instruction", "prompt", "rule", "guideline", "direction", "directive", "message", "command", "constraint", "polic"}}},
	{Orders, []string{"overrid", "overrul", "supersede", "precedence"}, regexp.MustCompile(
		`\b(?:override|overrides|overrule|overrules|supersede|supersedes|takes? precedence over)(?: (?:all|any|every|the|your|of))*(?: (?:previous|prior|earlier|other|existing|original))+ ` + told), nil},
	{Orders, []string{"your system prompt", "your instructions", "your full", "your initial", "your chain", "your entire"}, regexp.MustCompile(
		`\b(?:send|include|pass|provide|repeat|print|write|put|copy|output|return|reveal|append)` + some + `[ \n]your (?:full |entire |initial |own |complete |original )?(?:system prompt|instructions|chain of thought)\b`), nil},

	// Pose as somebody else.
	{Orders, []string{"<"}, regexp.MustCompile(
		`</?(?:important|system|secret|hidden|admin|override|urgent|sys|system[-_]?prompt|system[-_]reminder|system[-_]instructions?)\b(?:[^<>]{0,80})>`), nil},
	{Orders, []string{"[inst]", "[/inst]", "[system]", "[system ", "<|", "<<sys>>"}, regexp.MustCompile(
		`\[/?inst\]|\[system(?: [a-z]+)?\]|<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id)\|>|<<sys>>`), nil},
	{Orders, []string{"system instruction", "system prompt:", "system override", "system message:", "new instruction", "updated instruction", "important instruction", "important note", "important system"}, regexp.MustCompile(
		`\b(?:new|updated|important) (?:system )?(?:instructions?|note) ?for the (?:model|assistant|agent|ai)\b|\b(?:new|updated) instructions? ?:|\bimportant system (?:note|instructions?|message)\b|\bsystem (?:prompt|message|override|instructions?) ?:`), nil},

	// Interfere with other tools and their data.
	{Orders, []string{"before "}, regexp.MustCompile(
		`\b(?:must|always|have to|has to|needs? to|required|mandatory|first|priority)\b[^.\n]{0,100}\bbefore (?:(?:using|calling|invoking|running|executing|performing|making) )?(?:any|every|each|all)(?: of)?(?: the)?(?: other)? (?:tools?|functions?|actions?|operations?|calls?|requests?)\b`), [][]string{{"must", "always", "have to", "has to", "need", "required", "mandatory", "first", "priority", "should"}, {"tool", "function", "action", "operation", "call", "request"}}},
	{Orders, []string{"before "}, regexp.MustCompile(
		`\bbefore (?:(?:using|calling|invoking|running|executing|performing|making) )?(?:any|every|each|all)(?: of)?(?: the)?(?: [\w-]+)? (?:tools?|functions?|actions?|operations?|calls?|requests?)\b[^.\n]{0,60}\b(?:you|the (?:agent|assistant|model)) (?:must|should|have to|has to|needs? to)\b`), [][]string{{"must", "always", "have to", "has to", "need", "required", "mandatory", "first", "priority", "should"}, {"tool", "function", "action", "operation", "call", "request"}}},
	{Orders, []string{"request", "message", "query", "queries", "prompt", "turn"}, regexp.MustCompile(
		`\b(?:for|on|with|at|to|in) (?:any|every|each|all)(?: user)? (?:requests?|messages?|query|queries|prompts?|turns?)\b[^.\n]{0,80}\b(?:call|use|invoke|run) this (?:tool|function) (?:first|before)\b`), [][]string{{"this tool", "this function"}}},
	{Orders, []string{"mail", "email", "message", "payment", "transfer", "request", "file", "data", "result"}, regexp.MustCompile(
		`\b(?:all|every|each|any) (?:outgoing |sent |other )?(?:e-?mails?|messages?|payments?|transfers?|files?|data|results?) (?:must|should|have to|has to|needs? to) (?:always |also |first )?(?:be )?(?:sent|forwarded|redirected|routed|copied|bcc|cc|bcc'd|cc'd|go) (?:to|through)\b`), [][]string{{"must", "should", "have to", "has to", "need"}, {"all ", "every ", "each ", "any "}}},
	{Orders, []string{"conversation", "chat history", "chat log"}, regexp.MustCompile(
		`\b(?:send|include|pass|provide|put|copy|append|attach|upload|forward)` + some + `[ \n](?:(?:full|entire|whole|complete|all) )(?:of )?(?:the |this |our |your )?(?:prior |previous )?(?:conversation|chat)\b`), [][]string{{"full", "entire", "whole", "complete", "all"}}},

	// Places of credentials.
	{Credentials, []string{".ssh", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*(?:\.ssh[/\\][\w.*-]*|\bid_(?:rsa|dsa|ecdsa|ed25519)\b)`), nil},
	{Credentials, []string{"credentials", "credentials.json"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*(?:[/\\]\.?credentials(?:\.\w+)?\b|\.git-credentials\b|\bapplication_default_credentials\.json\b)`), nil},
	{Credentials, []string{".gnupg", ".kube", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".password-store", ".docker/config", ".vault-token", "wallet.dat", "login.keychain"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*(?:\.gnupg\b|\.kube[/\\]config\b|\.netrc\b|\.npmrc\b|\.pypirc\b|\.pgpass\b|\.password-store\b|\.docker[/\\]config\.json\b|\.vault-token\b|\bwallet\.dat\b|\blogin\.keychain\b)`), nil},
	{Credentials, []string{"/etc/", "/proc/", "/run/secrets"}, regexp.MustCompile(
		`/etc/(?:passwd|shadow|gshadow|sudoers|ssl/private)\b|/proc/(?:self|\d+|\*)/environ\b|/run/secrets\b`), nil},
	{Credentials, []string{"mcp.json", "mcp_config.json", "desktop_config.json", ".claude.json", ".claude/settings", "mcp_settings.json"}, regexp.MustCompile(
		`[\w~/.$%{}\\-]*[/\\]\.?mcp(?:_config|_settings)?\.json\b|\bclaude_desktop_config\.json\b|\.claude\.json\b|\.claude[/\\]settings[\w.]*\.json\b`), nil},
	{Credentials, []string{".env"}, regexp.MustCompile(
		"(?:[~\\w.-]*[/\\\\]|\\b(?:read|open|cat|send|include|contents? of|content from)(?: the| your| a| all| any)? [\"'`]?)\\.env\\b[\\w.]*"), nil},
}
