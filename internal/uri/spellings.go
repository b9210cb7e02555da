package uri

import "strings"

// Spellings returns the texts under which a URI has to be judged: text itself
// first, then each other way to write what some reader takes it for.
func Spellings(text string) []string {
	spellings := []string{text}
	add := func(s string) {
		for _, known := range spellings {
			if known == s {
				return
			}
		}
		spellings = append(spellings, s)
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
		next := decoded(text)
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
	if t.scheme == "file" && t.host != "" {
		hosts = append(hosts, "") // many readers of files leave the host out, whatever it is
	}
	for _, host := range hosts {
		add(t.reading(host, t.path).Text)
		add(t.reading(host, encoded(t.path)).Text)
	}
}
