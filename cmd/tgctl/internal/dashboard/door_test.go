package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Only the browser that brought the secret is let in, and only from the page itself.
func TestWhoIsLetIn(t *testing.T) {
	f := start(t)
	f.enter()
	cookie, key, origin, site, kind := f.papers()[0], f.papers()[1], f.papers()[2], f.papers()[3], f.papers()[4]
	port := f.base[strings.LastIndexByte(f.base, ':'):]
	deny := `{"id":"A-3","subject":"` + subjectText(f.daemon.Approvals[1].GetSubject()) + `","answer":"deny"}`
	for _, test := range []struct {
		name    string
		headers []string
		get     int
		post    int
	}{
		{"the browser", []string{cookie, key, origin, site, kind}, 200, 200},
		{"an older browser, which says less of a GET", []string{cookie, key, kind}, 200, 403},
		{"a stolen address", nil, 403, 403},
		{"a stolen cookie: what another port of 127.0.0.1 gets", []string{cookie, origin, site, kind}, 403, 403},
		{"a stolen key", []string{key, origin, site, kind}, 403, 403},
		{"a wrong cookie", []string{cookie + "x", key, origin, site, kind}, 403, 403},
		{"a wrong key", []string{cookie, key + "x", origin, site, kind}, 403, 403},
		{"a cookie and a key without text", []string{strings.Split(cookie, "=")[0] + "=", keyHeader + ": ", origin, site, kind}, 403, 403},
		{"a page of another origin", []string{cookie, key, "Origin: https://evil.example", site, kind}, 403, 403},
		{"a page of another port", []string{cookie, key, "Origin: http://127.0.0.1:1", site, kind}, 403, 403},
		{"a local file or a sandbox", []string{cookie, key, "Origin: null", site, kind}, 403, 403},
		{"the same machine, another port, as the browser says", []string{cookie, key, origin, "Sec-Fetch-Site: same-site", kind}, 403, 403},
		{"another site, as the browser says", []string{cookie, key, origin, "Sec-Fetch-Site: cross-site", kind}, 403, 403},
		{"an address typed by somebody", []string{cookie, key, origin, "Sec-Fetch-Site: none", kind}, 403, 403},
		{"a name that leads here", []string{cookie, key, origin, site, kind, "Host: evil.example" + port}, 403, 403},
		{"localhost", []string{cookie, key, origin, site, kind, "Host: localhost" + port}, 403, 403},
		{"another port in Host", []string{cookie, key, origin, site, kind, "Host: 127.0.0.1:1"}, 403, 403},
		{"no port in Host", []string{cookie, key, origin, site, kind, "Host: 127.0.0.1"}, 403, 403},
	} {
		f.daemon.Mu.Lock()
		before := len(f.daemon.Decisions)
		f.daemon.Mu.Unlock()
		code, header, text := f.send("GET", "/api/question?id=A-3", "", test.headers...)
		if code != test.get || code == 403 && strings.Contains(text, "A-3") {
			t.Errorf("%s: GET: %d %s", test.name, code, text)
		}
		if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("Referrer-Policy") != "no-referrer" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", test.name, header)
		}
		if code, _, text := f.send("POST", "/api/answer", deny, test.headers...); code != test.post {
			t.Errorf("%s: POST: %d %s", test.name, code, text)
		}
		if got := len(f.decisions()) - before; got != 0 && test.post != 200 {
			t.Errorf("%s: the daemon got an answer", test.name)
		}
	}
	if len(f.decisions()) != 1 {
		t.Errorf("the daemon got %d answers, want one", len(f.decisions()))
	}
}

// The page itself is the same for everybody who names it by its address, and holds nothing.
func TestStatic(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/", "/page.js", "/page.css", "/enter.js"} {
		before, _, was := f.send("GET", path, "")
		f.enterOnce()
		after, header, is := f.send("GET", path, "", f.papers()...)
		if before != 200 || after != 200 || was != is || strings.Contains(is, f.key) || strings.Contains(is, f.s.door.pass) || header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d and %d, the same: %v", path, before, after, was == is)
		}
		if code, _, text := f.send("GET", path, "", "Host: evil.example"); code != 403 || strings.Contains(text, "<script") {
			t.Errorf("%s under another name: %d %s", path, code, text)
		}
	}
	for _, path := range []string{"/enter", "/api/answer", "/api/none", "/../etc/passwd", "/page", "/%2e%2e/page.go"} {
		if code, _, text := f.send("GET", path, ""); code == 200 {
			t.Errorf("GET %s: %s", path, text)
		}
	}
}

func (f *fixture) enterOnce() {
	f.t.Helper()
	if f.cookie == nil {
		f.enter()
	}
}

// Nobody comes in without the secret, nor with it from a page of another origin, and wrong ones do no harm.
func TestEnterRefuses(t *testing.T) {
	f := start(t)
	for name, headers := range map[string][]string{
		"a page of another origin": {"Origin: https://evil.example"}, "no origin": {"Origin: "}, "another port": {"Origin: http://127.0.0.1:1"},
	} {
		if code, header, _ := f.send("POST", "/enter", "pass="+f.s.door.pass, append(headers, form)...); code != 403 || header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d", name, code)
		}
	}
	for _, pass := range []string{"", "x", f.s.door.pass + "x", strings.ToLower(f.s.door.pass), strings.Repeat("x", 2<<20)} {
		if code, header, _ := f.knock(pass); code != 403 || header.Get("Set-Cookie") != "" {
			t.Errorf("%.20q: %d", pass, code)
		}
	}
	if code, header, _ := f.send("GET", "/enter?pass="+f.s.door.pass, ""); code == 200 || header.Get("Set-Cookie") != "" {
		t.Errorf("the secret in an address: %d", code)
	}
	if code, header, _ := f.send("POST", "/enter?pass="+f.s.door.pass, "", form, "Origin: null"); code != 403 || header.Get("Set-Cookie") != "" {
		t.Errorf("the secret in the address of a POST: %d", code)
	}
	if code, _, _ := f.knock(f.s.door.pass, "Host: evil.example"); code != 403 {
		t.Errorf("by another name: %d", code)
	}
	f.enter()
	if f.cookie.SameSite != http.SameSiteStrictMode || !f.cookie.HttpOnly || f.cookie.Path != "/" || !f.cookie.Expires.IsZero() {
		t.Errorf("the cookie is %+v", f.cookie)
	}
}

// A secret that comes twice was known to somebody else: the dashboard ends, and the first who came is out.
func TestReplayedSecret(t *testing.T) {
	f := start(t)
	f.enter()
	if code, header, text := f.knock(f.s.door.pass); code != 403 || header.Get("Set-Cookie") != "" || !strings.Contains(text, "somebody else") {
		t.Errorf("the second: %d %s", code, text)
	}
	err := <-f.ended
	if !errors.Is(err, errDoor) {
		t.Errorf("the dashboard ended with %v", err)
	}
	f.ended <- nil
	f.daemon.Mu.Lock()
	defer f.daemon.Mu.Unlock()
	if len(f.daemon.Reports) != 1 || f.daemon.Reports[0].GetSurface() != surface || len(f.daemon.Reports[0].GetReason()) > 512 {
		t.Errorf("reported: %v", f.daemon.Reports)
	}
	if f.s.door.cookie != "" || f.s.door.key != "" {
		t.Error("the first one is still let in")
	}
}

// The secret is valid for a while only.
func TestSecretExpires(t *testing.T) {
	f := start(t)
	now := time.Now()
	f.s.door.mu.Lock()
	f.s.door.now = func() time.Time { return now }
	f.s.door.until = now.Add(-time.Second)
	f.s.door.mu.Unlock()
	if code, header, _ := f.knock(f.s.door.pass); code != 403 || header.Get("Set-Cookie") != "" {
		t.Errorf("got %d", code)
	}
}

// A dashboard to which nobody comes ends.
func TestNobodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{app: testApp(), door: newDoor("127.0.0.1:1", time.Now)}
		began := time.Now()
		if err := s.invite(t.Context(), true); err == nil || time.Since(began) != passTime {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
