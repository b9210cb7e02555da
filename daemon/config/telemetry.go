package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Credential stands before the name of a credential that a service manager
// provides, where a file could be named.
const Credential = "credential:"

// Loopback reports whether host is this machine by its name or address.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// telemetry holds V-TEL-002 to V-TEL-009; V-TEL-001 is a bound of the type table.
func (c *checker) telemetry() {
	t := &c.Telemetry
	o := &t.OTLP
	if t.Enabled && o.Endpoint == "" {
		c.wrong(&t.Enabled, "V-TEL-002", `write otlp: {endpoint: "http://localhost:4318"}`, "traces are on and there is no endpoint")
	}
	if o.Endpoint != "" {
		c.endpoint(&o.Endpoint)
	}
	if o.Protocol != "http/protobuf" {
		c.wrong(&o.Protocol, "V-TEL-003", "", "the protocol must be http/protobuf")
	}
	for _, name := range keysOf(o.Headers) {
		if !headerName.MatchString(name) {
			c.wrong(&o.Headers, "V-TEL-005", "", "%q can't be the name of a header", name)
		}
		if strings.ContainsAny(o.Headers[name], "\n\t") {
			c.wrong(&o.Headers, "V-TEL-006", "", "the value of the header %q holds a line break or a tab", name)
		}
	}
	for _, name := range keysOf(o.HeaderFiles) {
		if !headerName.MatchString(name) {
			c.wrong(&o.HeaderFiles, "V-TEL-005", "", "%q can't be the name of a header", name)
		}
		if slices.ContainsFunc(keysOf(o.Headers), func(other string) bool { return strings.EqualFold(name, other) }) {
			c.wrong(&o.HeaderFiles, "V-TEL-009", "leave one of them out", "the header %q is in headers too", name)
		}
		if file := o.HeaderFiles[name]; file == "" || file == Credential || strings.ContainsRune(strings.TrimPrefix(file, Credential), 0) || strings.HasPrefix(file, Credential) && strings.Contains(file, "/") {
			c.wrong(&o.HeaderFiles, "V-TEL-006", "write a path, or credential:NAME", "the header %q has no file", name)
		}
	}
	for _, key := range keysOf(t.Resource) {
		if key == "" || strings.TrimSpace(key) != key {
			c.wrong(&t.Resource, "V-TEL-007", "", "%q can't be the name of an attribute", key)
		}
		if len(t.Resource[key]) > 4096 {
			c.wrong(&t.Resource, "V-TEL-008", "", "the value of the attribute %q is longer than 4096 bytes", key)
		}
	}
}

func (c *checker) endpoint(field *string) {
	u, err := url.Parse(*field)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.wrong(field, "V-TEL-002", `write it as "http://localhost:4318"`, "the endpoint must be an http or https URL")
	case u.User != nil:
		c.wrong(field, "V-TEL-004", "put credentials into headers, from a variable", "the endpoint carries a user or a password")
	case u.RawQuery != "" || u.Fragment != "":
		c.wrong(field, "V-TEL-002", "", "the endpoint must not have a query or a fragment")
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		c.wrong(field, "V-TEL-002", "write https, or let a collector on this machine send them on", "traces would cross the network in the clear")
	}
}
