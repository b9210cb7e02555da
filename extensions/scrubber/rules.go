package main

import (
	"regexp"
	"strings"
)

// find is a secret found in a text.
type find struct {
	start, end int
	rule       string
}

// Our own rules, for what the library misses.
const (
	urlPassword = "url-password"
	privateKey  = "private-key"
	memberName  = "member-name"
)

var (
	// The password of a URL: between a colon and the last at sign before the host. JSON within
	// a string writes slashes as \/.
	userinfo = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]{1,30}:(?:\\?/){2}[^\s/?#:@"'<>\\]*:([^\s/?#"'<>\\]+)@[^\s/?#@"'<>]`)
	// The same with characters that should have been encoded.
	looseUserinfo = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]{1,30}:(?:\\?/){2}[^\s/?#:@"'<>\\]*:([^\s"'<>@]+)@[^\s/?#@"'<>]`)
	// A colon may also precede a port, and the path after it may contain an at sign:
	// http://registry:4873/@scope/name.
	port = regexp.MustCompile(`^\d{1,5}(?:\\?[/?#]|$)`)
	// A truncated key: lines of base64, possibly after headers. Its line breaks may be those of
	// JSON within a string.
	cutKey = regexp.MustCompile(`-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])*` +
		`(?:[A-Za-z-]{3,30}: ?[^\s\\]{1,100}(?:\s|\\[nr])+)*(?:[A-Za-z0-9+/=]{16,}(?:\s|\\[nr])*)+(?:[A-Za-z0-9+/]{1,15}(?:={1,2}|"?\n|\z))?`)
)

// ours returns what our own rules find in text.
func ours(text string) []find {
	var found []find
	if strings.Contains(text, "@") {
		for _, m := range userinfo.FindAllStringSubmatchIndex(text, -1) {
			found = append(found, find{m[2], m[3], urlPassword})
		}
		for _, m := range looseUserinfo.FindAllStringSubmatchIndex(text, -1) {
			if !port.MatchString(text[m[2]:m[3]]) {
				found = append(found, find{m[2], m[3], urlPassword})
			}
		}
	}
	if strings.Contains(text, "PRIVATE KEY") {
		for _, m := range cutKey.FindAllStringIndex(text, -1) {
			found = append(found, find{m[0], m[1], privateKey})
		}
	}
	return found
}

// secretNames are the endings of the names of members that hold only a secret.
var secretNames = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "secretkey", "apikey", "accesskey", "privatekey",
	"accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "apitoken",
}

// kept are values of such members that are not secrets.
var kept = map[string]bool{
	"string": true, "none": true, "null": true, "true": true, "false": true, "required": true, "optional": true, "hidden": true,
	"redacted": true, "masked": true, "password": true, "secret": true,
}

// named reports whether the value of a member with that name is a secret. A value with blanks
// is prose, and one with brackets a placeholder.
func named(name, value string) bool {
	if len(value) < 4 || len(value) > 4096 || strings.ContainsAny(value, " \t\r\n<>{}") || kept[strings.ToLower(value)] ||
		strings.Trim(value, value[:1]) == "" || strings.HasPrefix(value, "$") || strings.HasPrefix(value, "[redacted") {
		return false
	}
	name = strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(name))
	for _, end := range secretNames {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
