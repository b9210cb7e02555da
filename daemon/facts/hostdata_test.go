package facts

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func TestCarriesData(t *testing.T) {
	const said = "user=ann:pass=winter"
	in32 := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(said))
	for host, want := range map[string]bool{
		hex.EncodeToString([]byte(said)) + ".x.example.com":          true,
		hex.EncodeToString([]byte("token:")) + ".1.x.example.com":    true,
		in32 + ".x.example.com":                                      true,
		strings.ToLower(in32) + ".x.example.com":                     true,
		base64.RawURLEncoding.EncodeToString([]byte(said)) + ".x.io": true,
		"MFRGGZDFMZTWQ2LK7777.example.com":                           true, // base32 of bytes
		"d0c1b2a3.11223344.aabbccdd.0f1e2d3c.x.example.com":          true,
		"api.example.com":                                                               false,
		"d111111abcdef8.cloudfront.net":                                                 false,
		"123456789012.dkr.ecr.us-east-1.amazonaws.com":                                  false,
		"8f14e45fceea167a5a36dedd4bea2543.preview.example.com":                          false, // a hash
		"0b8a7c6d-1f2e-4a3b-9c8d-7e6f5a4b3c2d.blob.core.example.net":                    false,
		"documentation-and-tutorials.example.com":                                       false,
		"internationalization.example.com":                                              false,
		"MyVeryLongServiceName.Corp.Example.com":                                        false,
		"one.two.ten.six.example.com":                                                   false,
		"xn--80akhbyknj4f.xn--e1afmkfd.example.com":                                     false,
		"ip-10-0-0-12.us-west-2.compute.internal":                                       false,
		hex.EncodeToString([]byte(said)) + ".com":                                       false, // its own domain
		"bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi.ipfs.example.link": false,
	} {
		if got := carriesData([]byte(host)); got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
	for text, want := range map[string]string{"https://u:p@A.example.com:8443/x?y": "A.example.com", "A.example.com/x": "A.example.com", "": "", "://": ""} {
		if got := string(hostIn([]byte(text))); got != want {
			t.Errorf("host in %s: got %q, want %q", text, got, want)
		}
	}
}
