package protocol

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Limits of one record of an extension's memory.
const (
	MaxRecord = 64 << 10 // bytes of content, tags and meta together
	MaxTags   = 32
)

// The default and maximum number of records that a query returns.
const (
	usualLimit = 100
	mostLimit  = 1000
)

// Append is a request to store a record.
type Append struct {
	Namespace string
	Content   string
	Tags      []string
	Meta      []byte // raw JSON, or nil
}

// ReadAppend parses the params of memory.append.
func ReadAppend(params []byte) (Append, error) {
	o := rawjson.Read(params)
	a := Append{Namespace: param(o, "namespace"), Content: param(o, "content"), Tags: o.Texts("tags"), Meta: OneLine(o.Get("meta"))}
	size := len(a.Content) + len(a.Meta)
	for _, tag := range a.Tags {
		size += len(tag)
	}
	switch {
	case len(a.Tags) > MaxTags:
		o.Fail("a record has at most %d tags", MaxTags)
	case size > MaxRecord:
		o.Fail("a record has at most %d bytes; this one has %d", MaxRecord, size)
	}
	return a, o.Err()
}

// Query is a search of an extension's memory.
type Query struct {
	Namespace       string
	ContentContains string    // empty for any content
	TagPrefix       string    // of at least one tag; empty for any tags or none
	Since, Until    time.Time // inclusive; zero for no bound
	Limit           int       // at least 1
}

// ReadQuery parses the params of memory.query.
func ReadQuery(params []byte) (Query, error) {
	o := rawjson.Read(params)
	q := Query{Namespace: param(o, "namespace"), ContentContains: o.OptionalText("content_contains"), TagPrefix: o.OptionalText("tag_prefix")}
	for name, to := range map[string]*time.Time{"since_ms": &q.Since, "until_ms": &q.Until} {
		ms := o.Number(name, 0)
		if ms > 1<<53 {
			o.Fail("%s is too large", name)
		}
		if o.Get(name) != nil {
			*to = time.UnixMilli(int64(ms))
		}
	}
	q.Limit = int(min(o.Number("limit", 0), mostLimit))
	if q.Limit == 0 {
		q.Limit = usualLimit
	}
	return q, o.Err()
}

// Remembered is a record in the result of a query.
type Remembered struct {
	Written time.Time
	Content string
	Tags    []string
	Meta    []byte // raw JSON, or nil
}

// AppendRecords appends the result of memory.query with the records, in their order.
func AppendRecords(dst []byte, namespace string, all []Remembered) []byte {
	dst = append(dst, `{"records":[`...)
	for i, r := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(append(dst, `{"namespace":`...), namespace)
		dst = strconv.AppendInt(append(dst, `,"timestamp_ms":`...), r.Written.UnixMilli(), 10)
		dst = wire.AppendQuote(append(dst, `,"content":`...), r.Content)
		dst = appendTexts(append(dst, `,"tags":`...), r.Tags)
		if r.Meta != nil {
			dst = append(append(dst, `,"meta":`...), r.Meta...)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}

// ReadKey parses the params of config.get.
func ReadKey(params []byte) (string, error) {
	o := rawjson.Read(params)
	return param(o, "key"), o.Err()
}

// ReadSetting parses the params of config.set.
func ReadSetting(params []byte) (key, value string, err error) {
	o := rawjson.Read(params)
	return param(o, "key"), param(o, "value"), o.Err()
}

// param returns a required parameter of type string.
func param(o rawjson.Object, name string) string {
	if o.Get(name).Kind() != '"' {
		o.Fail("missing or invalid '%s' parameter", name)
	}
	return o.Text(name)
}

// Setting returns the params of config.changed.
func Setting(key, value string) []byte {
	dst := wire.AppendQuote([]byte(`{"key":`), key)
	return append(wire.AppendQuote(append(dst, `,"value":`...), value), '}')
}

// Params returns the params of the handshake.
func (g *Greeting) Params() []byte {
	dst := wire.AppendQuote([]byte(`{"thoughtgate_version":`), g.Build)
	dst = strconv.AppendInt(append(dst, `,"protocol_version":`...), Version, 10)
	dst = wire.AppendQuote(append(dst, `,"name":`...), g.Name)
	dst = wire.AppendQuote(append(dst, `,"root":`...), g.Root)
	dst = append(dst, `,"config":{`...)
	for i, key := range slices.Sorted(maps.Keys(g.Config)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(append(wire.AppendQuote(dst, key), ':'), g.Config[key])
	}
	return append(dst, `}}`...)
}

// ToolParams returns the params of tool.call.
func ToolParams(name string, input []byte) []byte {
	dst := append(wire.AppendQuote([]byte(`{"name":`), name), `,"input":`...)
	return append(append(dst, input...), '}')
}

// CommandParams returns the params of command.invoke.
func CommandParams(command string, args []string, request string) []byte {
	dst := wire.AppendQuote([]byte(`{"command":`), command)
	dst = appendTexts(append(dst, `,"args":`...), args)
	return append(wire.AppendQuote(append(dst, `,"request_id":`...), request), '}')
}

// appendTexts appends an array of strings.
func appendTexts(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(dst, text)
	}
	return append(dst, ']')
}
