package facts

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
)

// placeOf reports whether credentials are kept at a path or URI, and returns what names them.
func placeOf(text []byte) (what string, is bool) {
	if decoded, ok := percentDecoded(text); ok {
		text = decoded
	}
	p := strings.ToLower(string(bytes.TrimLeft(text, "@")))
	p = strings.ReplaceAll(p, `\`, "/")
	scheme, rest, isURI := strings.Cut(p, "://")
	if isURI {
		switch {
		case scheme == "vault" || scheme == "op" || scheme == "keychain" || scheme == "secret" || scheme == "secrets":
			return scheme + ":// names a store of secrets", true
		case strings.HasPrefix(rest, "169.254.169.254") || strings.HasPrefix(rest, "metadata.google.internal"):
			return "the cloud's own address for credentials", true
		case scheme != "file" && scheme != "resource" && scheme != "fs":
			return "", false // another machine's files
		}
		p = rest
	}
	if i := strings.LastIndexByte(p, ':'); i > 1 { // host:path, as scp has it
		p = p[i+1:]
	}
	p = path.Clean("/" + p)
	if p == "/" {
		return "", false
	}
	parts := strings.Split(p[1:], "/")
	base := withoutSpares(parts[len(parts)-1])
	parts[len(parts)-1] = base
	joined := "/" + strings.Join(parts, "/")
	if strings.HasSuffix(base, ".pub") || base == "known_hosts" {
		return "", false
	}
	if isSecretFile(base, joined) {
		return base, true
	}
	for _, part := range parts {
		if secretFolders[part] {
			return part, true
		}
	}
	for _, s := range secretPaths {
		if strings.Contains(joined+"/", s) {
			return strings.Trim(s, "/"), true
		}
	}
	return "", false
}

// patternPlaces are names of which a pattern may be meant to find one.
var patternPlaces = []string{".ssh", ".aws", ".gnupg", ".kube", ".azure", ".docker", ".password-store", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".env",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials", "credentials.json", "secrets.yml", "secrets.json", "shadow"}

// listers are programs that show the names of files, and not what is in them.
var listers = set("ls", "ll", "tree", "du", "stat", "file", "wc", "readlink", "realpath", "touch", "mkdir", "chmod", "chown", "git")

var (
	oneOf = regexp.MustCompile(`\[([^]!^])\]`)     // a bracket expression for one character
	anyOf = regexp.MustCompile(`\*|\?|\[.[^]]*\]`) // what stands for more
)

// placeMatched reports whether a pattern may find a place where credentials are kept. One that
// says little of the names that it finds is meant for others.
func placeMatched(p effects.Path, program string) (what string, is bool) {
	if p.Kind != effects.Pattern || listers[program] {
		return "", false
	}
	parts := strings.Split(strings.ToLower(oneOf.ReplaceAllString(p.Name, "$1")), "/")
	for i, part := range parts {
		letters := len(anyOf.ReplaceAllString(part, ""))
		if letters < 2 || strings.ContainsAny(part[:1], "*?[") || part[0] != '.' && letters < 4 {
			continue
		}
		for _, name := range patternPlaces {
			if ok, err := path.Match(part, name); err != nil || !ok {
				continue
			}
			found := slices.Clone(parts)
			found[i] = name
			if what, is = placeOf([]byte(strings.Join(found, "/"))); is {
				return what, true
			}
		}
	}
	return "", false
}

// withoutSpares removes the suffixes of backup copies from a file name: id_rsa.bak, .env~,
// credentials.json.2.gz.
func withoutSpares(name string) string {
	const most = 4
	name = strings.TrimPrefix(name, "copy of ")
	for range most {
		plain := name
		for _, end := range spares {
			if rest, ok := strings.CutSuffix(name, end); ok && rest != "" {
				plain = rest
			}
		}
		if i := strings.LastIndexByte(plain, '.'); i > 0 && i+1 < len(plain) && strings.Trim(plain[i+1:], "0123456789-_") == "" {
			plain = plain[:i]
		}
		if plain == name {
			break
		}
		name = plain
	}
	return name
}

func isSecretFile(base, path string) bool {
	if secretFiles[base] {
		return true
	}
	if strings.HasPrefix(base, ".") && (strings.HasSuffix(base, "_history") || strings.HasSuffix(base, "-history")) || strings.HasPrefix(base, "kubeconfig") ||
		strings.Contains(base, "-adminsdk-") || strings.HasSuffix(base, ".tfvars.json") || strings.HasSuffix(base, ".secret.exs") {
		return true
	}
	name, ext := base, ""
	if i := strings.LastIndexByte(base, '.'); i >= 0 {
		name, ext = base[:i], base[i:]
	}
	if secretEnds[ext] {
		return true
	}
	switch ext {
	case ".pem":
		return name != "" && !hasOneOf(base, publicKeys)
	case ".key":
		folders := strings.Split(path, "/")
		return keyNames[name] || len(folders) > 1 && keyFolders[folders[len(folders)-2]]
	case ".env":
		return name == "" || envNames[name] || strings.Count(path, "/") > 1
	}
	switch strings.TrimSuffix(base, "_sk") {
	case "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519":
		return true
	}
	if rest, ok := strings.CutPrefix(base, ".env."); ok {
		return !publicEnv[rest]
	}
	if base == "cookies" {
		return strings.Contains(path, "chrom") || strings.Contains(path, "edge") || strings.Contains(path, "brave")
	}
	if strings.HasPrefix(path, "/proc/") {
		return base == "environ" || base == "mem"
	}
	return strings.HasPrefix(base, "client_secret_") && ext == ".json"
}

// isPathEnd marks the bytes that end a path in a line of words.
var isPathEnd = blanksAnd("\"'`;|&<>()=,{}[]")

// blanksAnd returns a table of blanks, control characters and marks.
func blanksAnd(marks string) (table [256]bool) {
	for c := range table {
		table[c] = c <= ' ' || strings.IndexByte(marks, byte(c)) >= 0
	}
	return table
}

// endBefore returns the end of what begins at start: before the first byte in table, or after
// most bytes.
func endBefore(table *[256]bool, text []byte, start, most int) int {
	end := start
	for end < len(text) && end-start < most && !table[text[end]] {
		end++
	}
	return end
}

// placeSearch judges each word of a text that contains a keyword, once.
type placeSearch struct {
	text  []byte
	alone bool // only judge a text that is a single word
	done  int
	what  string
	work  int // bytes examined
}

func (p *placeSearch) at(start int) {
	if p.what != "" || start < p.done {
		return
	}
	from, to := start, endBefore(&isPathEnd, p.text, start, len(p.text))
	for from > p.done && !isPathEnd[p.text[from-1]] {
		from--
	}
	p.done = to
	p.work += to - from
	if p.alone && (from > 0 || to < len(p.text)) {
		return
	}
	p.what, _ = placeOf(p.text[from:to])
}

// whole judges the text as a single path, which may contain blanks.
func (p *placeSearch) whole() {
	if !p.alone && p.done > 0 && p.what == "" && len(p.text) < 4096 && bytes.IndexByte(p.text, '\n') < 0 && bytes.IndexByte(p.text, '/') >= 0 {
		p.what, _ = placeOf(p.text)
	}
}

// proseNames are members whose value is text for people or a search term: it mentions places
// without accessing them.
var proseNames = set("content", "contents", "text", "body", "message", "msg", "description", "comment", "summary", "title", "subject",
	"new_str", "old_str", "newstr", "oldstr", "new_string", "old_string", "newstring", "oldstring", "newtext", "oldtext", "new_text", "old_text",
	"file_text", "insert_text", "note", "notes", "prompt", "reason", "explanation", "markdown", "html", "diff", "patch", "replacement",
	"thought", "reply", "answer", "query", "q", "question", "search", "keywords", "topic", "instructions", "task", "feedback")
