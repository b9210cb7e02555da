package uri

import (
	"slices"
	"strings"
)

// Spellings returns the texts under which a URI has to be judged: text itself
// first, then each other way to write what some reader takes it for.
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
	if whole := decodedWhole(text); whole != text { // file%3a///x: some readers decode before they take apart
		readings = append(readings, tidy(whole, true))
	}
	if head := strings.TrimLeftFunc(text, isBlank); len(head) > 2 && strings.Trim(head[:2], `/\`) == "" { // //host/x: the scheme is that of a page
		for _, scheme := range []string{"http", "https"} {
			readings = append(readings, tidy(scheme+":"+head, true))
		}
	}
	for _, t := range readings {
		t.spellings(add)
	}
	return spellings
}

// wrappers are schemes that say nothing but that a URL follows.
var wrappers = []string{"url:", "view-source:", "blob:", "filesystem:", "feed:", "jar:"}

// unwrapped takes off what some readers of URLs allow around one: angle brackets,
// quotes, `URL:` (urllib of Python, Java) and the schemes of browsers that lead to
// another.
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

// decodedWhole percent-decodes a text as often as a path may be.
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
		hosts = append(hosts, "") // many readers of files leave the host out, whatever it is
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

// carriedBy are schemes by which requests of another are made: a WebSocket begins as
// a request of HTTP to the same host.
var carriedBy = map[string]string{"ws": "http", "wss": "https"}

// throughProc returns where a path leads that goes through what /proc shows of the
// root and the working folder of a process, or through /dev/fd, as the system follows
// it; empty for any other. The root is taken for the one of all, and so is the working
// folder: with enough of .. behind it, it leads there.
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

// isProcessRoot reports whether at is /proc/PID/root or cwd, also of a thread.
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
