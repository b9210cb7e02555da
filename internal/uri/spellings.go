package uri

import (
	"slices"
	"strings"
)

// Spellings returns every text under which a URI must be judged: text itself first, then each
// spelling of what some parser may take it for.
func Spellings(text string) []string {
	spellings := []string{text}
	add := func(s string) {
		if !slices.Contains(spellings, s) {
			spellings = append(spellings, s)
		}
	}
	add(Parse(text).Text)
	readings := []tidied{tidy(text, true)}
	if strings.Contains(text, `\`) && strings.Contains(text, "@") { // https://one\@other/
		readings = append(readings, tidy(text, false))
	}
	if bare := unwrapped(text); bare != text {
		add(bare)
		readings = append(readings, tidy(bare, true))
	}
	if whole := decodedWhole(text); whole != text { // file%3a///x: some parsers decode before they split
		readings = append(readings, tidy(whole, true))
	}
	if head := strings.TrimLeftFunc(text, isBlank); len(head) > 2 && strings.Trim(head[:2], `/\`) == "" { // //host/x: takes the scheme of the page it stands on
		for _, scheme := range []string{"http", "https"} {
			readings = append(readings, tidy(scheme+":"+head, true))
		}
	}
	for _, t := range readings {
		t.spellings(add)
	}
	return spellings
}

// wrappers are schemes that only prefix another URL.
var wrappers = []string{"url:", "view-source:", "blob:", "filesystem:", "feed:", "jar:"}

// unwrapped removes what some URL parsers allow around a URL: angle brackets, quotes, `URL:`
// (Python's urllib, Java) and the browser schemes that lead to another URL.
func unwrapped(text string) string {
	for {
		bare := strings.TrimFunc(text, func(r rune) bool { return isBlank(r) || strings.ContainsRune("<>\"'`", r) })
		for _, wrapper := range wrappers {
			if len(bare) > len(wrapper) && strings.EqualFold(bare[:len(wrapper)], wrapper) {
				bare = bare[len(wrapper):]
				break
			}
		}
		if bare == text {
			return bare
		}
		text = bare
	}
}

// decodedWhole percent-decodes text until it no longer changes, at most mostDecoded times.
func decodedWhole(text string) string {
	for range mostDecoded {
		next := Decoded(text)
		if next == text {
			break
		}
		text = next
	}
	return text
}

func (t *tidied) spellings(add func(string)) {
	hosts := []string{t.host}
	if name := unicodeHost(t.host); name != t.host {
		hosts = append(hosts, name)
	}
	if t.early != t.host {
		hosts = append(hosts, t.early)
	}
	hosts = append(hosts, t.others...)
	if t.scheme == "file" && t.host != "" {
		hosts = append(hosts, "") // many parsers of file URLs ignore the host
	}
	paths := []string{t.path, encoded(t.path)}
	if t.led != "" {
		paths = append(paths, t.led, encoded(t.led))
	}
	for _, host := range hosts {
		for _, path := range paths {
			add(t.reading(host, path).Text)
		}
	}
	if over, ok := carriedBy[t.scheme]; ok {
		t.scheme = over
		t.spellings(add)
	}
}

// carriedBy maps a scheme to the scheme that carries its requests: a WebSocket begins as an HTTP
// request to the same host.
var carriedBy = map[string]string{"ws": "http", "wss": "https"}

// throughProc returns the path that the system reaches when path leads through /dev/fd or through
// the root or cwd link of a process in /proc; empty for any other path. Root and working folder
// are both taken for the system's root: enough ".." after them lead there.
func throughProc(path string) string {
	if !strings.Contains(path, "/proc") && !strings.Contains(path, "/dev") {
		return ""
	}
	var at []string
	through := false
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			at = at[:max(len(at)-1, 0)]
			continue
		}
		at = append(at, part)
		switch {
		case slices.Equal(at, []string{"dev", "fd"}):
			at, through = []string{"proc", "self", "fd"}, true
		case slices.Equal(at, []string{"proc", "thread-self"}):
			at = []string{"proc", "self", "task", "self"}
		case isProcessRoot(at):
			at, through = nil, true
		}
	}
	if !through {
		return ""
	}
	led := "/" + strings.Join(at, "/")
	if strings.HasSuffix(path, "/") && led != "/" {
		led += "/"
	}
	return led
}

// isProcessRoot reports whether at is the root or cwd link of a process or thread in /proc.
func isProcessRoot(at []string) bool {
	n := len(at)
	if n != 3 && n != 5 || at[0] != "proc" || !isProcess(at[1]) || at[n-1] != "root" && at[n-1] != "cwd" {
		return false
	}
	return n == 3 || at[2] == "task" && isProcess(at[3])
}

func isProcess(name string) bool {
	return name == "self" || strings.Trim(name, "0123456789") == ""
}
