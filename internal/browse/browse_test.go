package browse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		address  string
		loopback bool
		want     string // "" if it is refused
	}{
		{"https://Login.Example.com:443/a%2Fb?b=2&a=1", false, "https://login.example.com/a%2Fb?a=1&b=2"},
		{"https://login.example.com:8443", false, "https://login.example.com:8443"},
		{"https://[::1]:443/", false, "https://[::1]/"},
		{"http://127.0.0.1:8080/x", true, "http://127.0.0.1:8080/x"},
		{"http://localhost/x", true, "http://localhost/x"},
		{"http://[::1]:80/x", true, "http://[::1]/x"},
		{"http://127.0.0.1:8080/x", false, ""},
		{"http://login.example.com/x", true, ""},
		{"http://localhost.example.com/x", true, ""},
		{"http://127.0.0.1.example.com/x", true, ""},
		{"http://127.1/x", true, ""},
		{"javascript:alert(1)", true, ""},
		{"file:///etc/passwd", true, ""},
		{"https:login.example.com", false, ""},
		{"https:///x", false, ""},
		{"https://login.example.com@evil.example/", false, ""},
		{"https://evil.example#login.example.com", false, ""},
		{"https://exаmple.com/", false, ""}, // a Cyrillic letter
		{"https://a%20b.example/", false, ""},
		{`https://login.example.com\@evil.example/`, false, ""},
		{"https://login.example.com/?a=%zz", false, ""},
		{"https://login.example.com/?a;b", false, ""},
		{"https://login.example.com/\n", false, ""},
		{"--version", false, ""},
		{"https://a.example/" + strings.Repeat("a", maxAddressBytes), false, ""},
	} {
		u, err := Check(test.address, test.loopback)
		got := ""
		if err == nil {
			got = u.String()
		} else if strings.Contains(err.Error(), "example") {
			t.Errorf("the error of %q has parts of it: %v", test.address, err)
		}
		if got != test.want {
			t.Errorf("Check(%q, %v) = %q, want %q (%v)", test.address, test.loopback, got, test.want, err)
		}
	}
}

// What passes is read by every reader as it was checked: writing it again changes nothing.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"https://a.example/b?c=d&c=e", "https://a.example:443", "http://[::1]:80/%2f", "https://a.example//b/../c?%20=+", "https://a.example:/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		u, err := Check(address, true)
		if err != nil {
			return
		}
		again, err := Check(u.String(), true)
		if err != nil || again.String() != u.String() || again.Host != u.Host {
			t.Errorf("%q became %q, then %q (%v)", address, u, again, err)
		}
		for _, r := range u.String() {
			if r <= ' ' || r >= 0x7f {
				t.Errorf("%q became %q", address, u)
			}
		}
	})
}

func TestOpen(t *testing.T) {
	if filepath.IsAbs(opener) {
		t.Skip("starts a program by its path")
	}
	dir := t.TempDir()
	fake := "#!/bin/sh\nprintf '%s|%s' \"$#\" \"$1\" >" + dir + "/got\n"
	if err := os.WriteFile(filepath.Join(dir, opener), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	u, err := Check("https://login.example.com/$(touch%20x)?q=a b;c", false)
	if err == nil {
		t.Fatal("took a query that is read in two ways: ", u)
	}
	if u, err = Check("https://login.example.com/$(touch%20x)?q='a`b`", false); err != nil {
		t.Fatal(err)
	}
	if err := Open(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(dir + "/got"); string(got) != "1|"+u.String() {
		t.Errorf("the program got %q, want %q alone", got, u)
	}
	t.Setenv("PATH", t.TempDir())
	if err := Open(t.Context(), u); err == nil || !strings.Contains(err.Error(), "xdg-open") {
		t.Errorf("without a program: %v", err)
	}
}

// A file is opened only if nobody but this user can have written what the browser is to believe.
func TestOpenFile(t *testing.T) {
	if filepath.IsAbs(opener) {
		t.Skip("starts a program by its path")
	}
	dir := t.TempDir()
	fake := "#!/bin/sh\nprintf '%s|%s' \"$#\" \"$1\" >>" + dir + "/got\n"
	page := filepath.Join(dir, "a page;$(x).html")
	link := filepath.Join(dir, "link.html")
	if err := os.WriteFile(filepath.Join(dir, opener), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(page, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if err := OpenFile(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	want := "1|file://" + dir + "/a%20page;$%28x%29.html"
	if got, _ := os.ReadFile(dir + "/got"); string(got) != want {
		t.Errorf("the program got %q, want %q", got, want)
	}
	t.Chdir(dir)
	for _, path := range []string{link, dir, filepath.Base(page), filepath.Join(dir, "none.html"), "/dev/null", ""} {
		if err := OpenFile(t.Context(), path); err == nil {
			t.Errorf("opened %q", path)
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o602} {
		if err := os.Chmod(page, mode); err != nil {
			t.Fatal(err)
		}
		if err := OpenFile(t.Context(), page); err == nil {
			t.Errorf("opened a file of mode %o", mode)
		}
	}
	if got, _ := os.ReadFile(dir + "/got"); string(got) != want {
		t.Errorf("the program got %q after all", got)
	}
}
