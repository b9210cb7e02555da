package facts

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// Beyond the limit on our own files, a person is asked about each file with several names, since
// it could be one of them. Up to the limit, only files of ours cause a question.
func TestMoreFilesThanAreCompared(t *testing.T) {
	h := newFixture(t)
	if err := os.Link(h.project+"/README.md", h.project+"/second.md"); err != nil {
		t.Fatal(err)
	}
	paths := h.finder.own.paths(t.Context(), false)
	n := len(h.finder.own.inodes(t.Context(), paths, time.Now()))
	for _, tt := range []struct {
		most int
		ours bool
	}{{n, false}, {n - 1, true}} {
		h.finder.own.most, h.finder.own.files = tt.most, nil
		if got := h.isOurs("read_file", "path", "second.md"); got != tt.ours {
			t.Errorf("with %d files of ours and %d that are compared it is ours: %v", n, tt.most, got)
		}
	}
}

// A result that is old, or older than the call, is not reused.
func TestFilesAreLookedForAnew(t *testing.T) {
	h := newFixture(t)
	state := h.home + "/.local/state/thoughtgate"
	own := h.finder.own
	paths := own.paths(t.Context(), false)
	ended, end := context.WithCancel(t.Context())
	end()
	began := time.Now()
	own.inodes(ended, paths, began)
	before := len(own.inodes(t.Context(), paths, began))
	if before == 0 {
		t.Fatal("what a judgement that was over had found is taken for all")
	}
	if err := os.WriteFile(state+"/new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := len(own.inodes(t.Context(), paths, began)); got != before {
		t.Errorf("%d files for the call that looked just now, want the %d that it found", got, before)
	}
	if got := len(own.inodes(t.Context(), paths, time.Now())); got != before+1 {
		t.Errorf("%d files for a call that came since, want %d", got, before+1)
	}
	if err := os.WriteFile(state+"/newer", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own.filed = own.filed.Add(-ownFresh)
	if got := len(own.inodes(t.Context(), paths, own.filed.Add(-time.Second))); got != before+2 {
		t.Errorf("%d files after %v, want %d", got, ownFresh, before+2)
	}
	// A call that arrives during another look needs its own.
	looks := &tellsOf{Context: t.Context()}
	own.inodes(looks, paths, time.Now())
	if !own.filed.Before(looks.last) {
		t.Errorf("what was found from %v on is taken for found after %v", own.filed, looks.last)
	}
}

// tellsOf is a context that records when it was last asked whether it is done, except for a final
// check.
type tellsOf struct {
	context.Context
	last, now time.Time
}

func (c *tellsOf) Err() error {
	c.last, c.now = c.now, time.Now()
	return nil
}

// A form that names a credential is recognized, whatever the words and however it hides them.
func TestWordsOfForms(t *testing.T) {
	for _, text := range strings.Split("passwords,passwd,passcode,Passwort,credential,credentials,apikey,otp,totp,cvv,cvc,mnemonic,jwt,"+
		"api key,access key,secret key,private key,signing keys,encryption key,ssh keys,license key,"+
		"access tokens,API token,auth token,bearer token,refresh token,session token,security token,personal token,github token,bot token,OAuth token,"+
		"client secret,app secret,api secret,shared secret,your secret,seed phrase,recovery phrase,backup phrase,pass phrase,"+
		"security code,recovery code,backup code,pin code,2fa code,mfa code,otp code,time code,verification code,authenticator code,"+
		"your pin,card pin,account pin,user pin,bank pin,card number,api_key,pass\u200bword,p\u0430ssword", ",") {
		if credentialIn(new(cleaner).clean([]byte("Enter (the) "+text+", please"))) == "" {
			t.Errorf("%q names no credential", text)
		}
	}
	f := New(Options{})
	for _, schema := range []string{
		`{"type":"object","title":"Your password"}`,
		`{"type":"object","properties":{"v":{"type":"string","description":"Your pass\u200bword"}}}`,
		`{"type":"object","properties":{"v":{"type":"string","enum":["Your password"]}}}`,
		`{"type":"object","properties":{"v":{"type":"string","const":"Your password"}}}`,
		`{"type":"object","properties":{"v":{"type":"string","default":"Your password"}}}`,
		`{"type":"object","properties":{"v":{"oneOf":[{"const":"a","title":"Your API key"}]}}}`,
		`{"type":"object","properties":{"credit card number":{"type":"string"}}}`,
	} {
		if !isSuspicious(t, f, schema) {
			t.Errorf("%s is nothing", schema)
		}
	}
}
