package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// passTime is how long the one-time secret is valid.
const passTime = 5 * time.Minute

// maxPassBytes limits the body of a request that brings the secret.
const maxPassBytes = 1 << 10

// keyHeader is the header with which the page's script proves that it runs on the page. A cookie alone
// would not do: browsers send it to every port of 127.0.0.1, also to that of an agent's web server.
const keyHeader = "Thoughtgate-Key"

// errDoor is in errors that end the dashboard because somebody else may have been let in.
var errDoor = errors.New("somebody else may have opened the dashboard")

// The files of the page. They are the same for everybody and hold nothing.
var (
	//go:embed page/index.html
	pageHTML []byte
	//go:embed page/page.js
	pageJS []byte
	//go:embed page/page.css
	pageCSS []byte
	//go:embed page/enter.js
	enterJS []byte
	//go:embed page/icon.svg
	iconSVG []byte
)

// door decides who is let in: the first who brings the secret gets a cookie and a key, and both are
// needed from then on. Nobody else ever does. Its methods are safe for concurrent use.
type door struct {
	host    string // the only value of the header Host
	origin  string
	pass    string
	until   time.Time // pass is valid until then
	now     func() time.Time
	entered chan struct{}           // closed when pass was used
	closed  context.CancelCauseFunc // called with errDoor

	mu          sync.Mutex
	cookie, key string // empty before pass was used
	shut        bool   // nobody is let in any more
}

func newDoor(host string, now func() time.Time) *door {
	return &door{host: host, origin: "http://" + host, pass: rand.Text(), until: now().Add(passTime), now: now, entered: make(chan struct{})}
}

// cookieName contains the port, so that two dashboards do not replace each other's cookie.
func (d *door) cookieName() string {
	_, port, _ := net.SplitHostPort(d.host)
	return "thoughtgate-" + port
}

func same(a, b string) bool { return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// headers sets on every response what a browser must not do with it.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// refuse answers all that is not let in alike.
func refuse(w http.ResponseWriter) {
	http.Error(w, "This page is for the browser that tgctl dashboard has opened.", http.StatusForbidden)
}

// handler serves the page to everybody who names it by its address, the door, and what is behind it.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	file := func(path, kind string, content []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			_, _ = w.Write(content)
		})
	}
	file("/{$}", "text/html", pageHTML)
	file("/page.js", "text/javascript", pageJS)
	file("/page.css", "text/css", pageCSS)
	file("/enter.js", "text/javascript", enterJS)
	file("/icon.svg", "image/svg+xml", iconSVG)
	mux.HandleFunc("POST /enter", s.door.enter)
	mux.Handle("/api/", s.door.inside(s.api()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		if r.Host != s.door.host { // a name that leads here (DNS rebinding)
			refuse(w)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// enter takes the secret, once. It comes from a local file, whose origin browsers call null, or was typed
// on the page. Where it comes a second time, one of the two was not the person: nobody is let in any more.
func (d *door) enter(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxPassBytes)
	if origin := r.Header.Get("Origin"); origin != "null" && origin != d.origin || !same(d.pass, r.PostFormValue("pass")) {
		refuse(w)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.shut || d.now().After(d.until):
		refuse(w)
		return
	case d.cookie != "":
		d.cookie, d.key, d.shut = "", "", true
		d.closed(twice{})
		http.Error(w, "This secret was used before, so somebody else may have opened the dashboard. It was closed; see the terminal.", http.StatusForbidden)
		return
	}
	d.cookie, d.key = rand.Text(), rand.Text()
	close(d.entered)
	http.SetCookie(w, &http.Cookie{Name: d.cookieName(), Value: d.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(`<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>ThoughtGate</title><meta name="key" content="` + d.key + `"><script src="/enter.js"></script>` + "\n"))
}

// twice is the error of a secret that came twice.
type twice struct{}

func (twice) Error() string {
	return "the one-time secret of the dashboard came twice: " + errDoor.Error() + "; nothing more can be done with it, see in the record what was (tgctl audit)"
}

func (twice) Is(target error) bool { return target == errDoor }

// inside lets only the page itself through.
func (d *door) inside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		cookie, key := d.cookie, d.key
		d.mu.Unlock()
		brought, err := r.Cookie(d.cookieName())
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case err != nil || !same(cookie, brought.Value) || !same(key, r.Header.Get(keyHeader)):
		case origin != d.origin && (origin != "" || r.Method != http.MethodGet): // browsers name the origin of every POST
		case site != "" && site != "same-origin":
		default:
			next.ServeHTTP(w, r)
			return
		}
		refuse(w)
	})
}
