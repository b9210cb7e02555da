package mcp

import (
	"strings"
	"testing"
)

func TestCheckPage(t *testing.T) {
	for _, good := range []string{
		"https://example.com", "HTTPS://Example.com/", "https://login.example.com:8443/oauth/authorize?client_id=a-b&scope=read%20write&state=%7B%22a%22%3A1%7D&redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Fcb#top",
		"https://xn--bcher-kva.example/~me/a,b+c@d", "https://192.0.2.7/x", "https://[2001:db8::1]/", "https://example.com/%C3%BC",
		"http://localhost/", "http://LOCALHOST:8080/cb?code=1&x=2", "http://127.0.0.1:3000/", "http://127.8.9.1/", "http://[::1]:80/",
		"https://example.com/" + strings.Repeat("a", 8000),
	} {
		if err := CheckPage(good); err != nil {
			t.Errorf("%.100s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "example.com", "/a", "//example.com", "https:", "https:/example.com", "https:example.com", "https:///example.com", "https://", "https://:443/",
		"http://example.com/", "http://localhost.example.com/", "http://10.0.0.1/", "http://localhost@example.com/", "http://127.0.0.1.example.com/",
		"file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "ftp://example.com/", "ssh://example.com", "vscode://x/y", "httpsx://example.com", "smb://example.com/a", "ms-settings:x", "view-source:https://example.com",
		// Users, and hosts that can be parsed in two ways.
		"https://example.com@evil.example/", "https://a:b@evil.example/", "https://@evil.example/", "https://example.com./", "https://.example.com/", "https://a..b/",
		"https://2130706433/", "https://0x7f000001/", "https://a.0x1/", "https://0x7f.1/", "https://127.1/", "http://127.1/", "http://0x7f000001/", "http://2130706433/", "http://0177.0.0.1/", "http://127.0.0.01/", "https://[::1%25eth0]/", "https://[192.0.2.7]/", "https://exa%6Dple.com/", "https://exa mple.com/", "https://ex\uff41mple.com/", "https://b\u00fccher.example/", "https://example.com:8a/", "https://exa_mple.c[m/", "https://exa+mple.com/", "https://a=b.example/", "https://a~b.example/", "https://a,b.example/",
		// Blanks, controls, invisible characters and direction marks.
		" https://example.com/", "https://example.com/ ", "https://example.com/\n", "https://example.com/\ta", "https://exam\tple.com/", "\u00a0https://example.com/", "https://example.com/\x00", "https://example.com/\x1b[2J", "https://example.com/\x7f", "https://example.com/\u0085", "https://example.com/\u202egnp.exe", "https://example.com/\u2066a", "https://example.com/\u200bb", "https://example.com/\ufeff", "https://example.com/\u2028",
		"https://example.com/%0d%0aX:1", "https://example.com/%00", "https://example.com/?a=%1b", "https://example.com/%E2%80%AEgnp", "https://example.com/#%7f", "https://example.com/%C2%85",
		"https://example.com/%", "https://example.com/%zz", "https://example.com/?a=%4",
		// Shell metacharacters.
		"https://example.com/$(calc.exe)", "https://example.com/`id`", "https://example.com/;id", "https://example.com/|id", "https://example.com/a&calc.exe", "https://example.com&calc.exe", "https://example.com/?a=$HOME", "https://example.com/?a=1;id", `https://example.com/"&calc`, "https://example.com/'", "https://example.com/<x>", "https://example.com/>x", `https:\\example.com\a`, `https://example.com\@evil.example/`, "https://example.com/^", "https://example.com/{a,b}", "https://example.com/*", "https://example.com/!x", "https://example.com/(a)", "https://example.com/?a[]=1", "https://example.com/a[b]",
		"https://example.com/" + strings.Repeat("a", 9000),
	} {
		if err := CheckPage(bad); err == nil {
			t.Errorf("%.100q is let through", bad)
		}
	}
}
