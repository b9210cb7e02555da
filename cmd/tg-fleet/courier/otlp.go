package courier

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/retryafter"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

const (
	// refusedAgain is after how long a collector gets again what it refused: a person has to
	// repair something first, and what was refused is never left out.
	refusedAgain = 5 * time.Minute
	// mostRetryAfter is the longest that a collector can have a batch wait.
	mostRetryAfter = time.Hour
	// maxAnswerShown bounds what is shown of a collector's answer.
	maxAnswerShown = 200
)

// A Collector takes records as OTLP logs over HTTP. It can't be asked for what it has, so a file
// says what it has acknowledged: it gets every record, and after a kill between the
// acknowledgement and the file one batch twice.
type Collector struct {
	client     *http.Client
	url        string
	headerFile string
	cursor     string
	resource   *resource.Resource
	notBefore  time.Time // of the next request
}

// NewCollector returns the collector of an identity, with the file of its cursor.
func NewCollector(id *Identity, cursor string) (*Collector, error) {
	client, err := id.web(id.OTLP, webTimeout)
	if err != nil {
		return nil, err
	}
	device, err := id.Device()
	return &Collector{
		client: client, url: id.OTLP, headerFile: id.Header, cursor: cursor,
		resource: &resource.Resource{Attributes: []*common.KeyValue{
			text("service.name", "thoughtgate"), text("thoughtgate.fleet", id.Fleet), text("thoughtgate.group", id.Group), text("thoughtgate.device", device),
		}},
	}, err
}

// acknowledged is the last record that a collector has acknowledged.
type acknowledged struct {
	Log string `json:"log"`
	Seq uint64 `json:"seq"`
	Sum string `json:"sum"` // hex SHA-256 of its line
}

// Last returns the last record of a log that was acknowledged, if there was one.
func (c *Collector) Last(log string) (record.Chain, error) {
	content, err := secret.ReadFile(c.cursor)
	if errors.Is(err, fs.ErrNotExist) {
		return record.Chain{}, nil
	}
	var last acknowledged
	if err == nil {
		err = json.Unmarshal([]byte(content), &last)
	}
	if err == nil && (last.Seq == 0 || last.Log == "" || last.Sum == "") {
		err = errors.New("it is incomplete")
	}
	switch {
	case err != nil:
		return record.Chain{}, fmt.Errorf("read which records were sent, %s: %w; leave the fleet and join it again", c.cursor, err)
	case last.Log != log:
		return record.Chain{}, nil // the daemon has begun another log, which is sent from its beginning
	}
	return record.Chain{Seq: last.Seq, Sum: last.Sum}, nil
}

// put sends a batch, and notes that it was acknowledged.
func (c *Collector) put(ctx context.Context, log string, batch *stream.Batch) error {
	pause(ctx, time.Until(c.notBefore))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	request, last, err := c.request(log, batch)
	if err != nil {
		return err
	}
	if err := c.post(ctx, request); err != nil {
		return err
	}
	content, err := json.Marshal(acknowledged{log, last.Seq, last.Sum})
	if err != nil {
		return err
	}
	if err := secret.WriteFile(c.cursor, append(content, '\n')); err != nil {
		return fmt.Errorf("note which records were sent: %w", err)
	}
	return nil
}

// request returns a batch as it is sent, and its last record.
func (c *Collector) request(log string, batch *stream.Batch) ([]byte, record.Chain, error) {
	var (
		last    record.Chain
		all     []*logs.LogRecord
		entries = record.NewReader(bytes.NewReader(batch.Raw()), 0)
	)
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, last, err
		}
		var ok bool
		if last, ok = record.After(e); !ok {
			return nil, last, fmt.Errorf("send records: the one after %d is damaged", last.Seq)
		}
		all = append(all, logRecord(log, last.Seq, e))
	}
	// It has the encoding of the request of the collector's service, whose Go package links a gateway.
	body, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  c.resource,
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "thoughtgate.audit"}, LogRecords: all}},
	}}})
	if err != nil {
		return nil, last, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(body)
	err = errors.Join(err, z.Close())
	return packed.Bytes(), last, err
}

// warned are the verdicts that somebody who looks at a fleet wants to see.
var warned = []string{
	record.Deny, "rejected", "refused", "expired", "wrong", "locked", "lost", "failed", "unjudged", "ungoverned", "drifted", "withheld", "unanswered",
}

// logRecord returns a record as it is sent: the stored line is its body.
func logRecord(log string, seq uint64, e record.Entry) *logs.LogRecord {
	l := &logs.LogRecord{
		ObservedTimeUnixNano: uint64(time.Now().UnixNano()), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "INFO",
		Body:       &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: string(e.Line)}},
		Attributes: []*common.KeyValue{text("thoughtgate.log", log), {Key: "thoughtgate.seq", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(seq)}}}},
	}
	if !utf8.Valid(e.Line) { // which the daemon does not write
		l.Body.Value = &common.AnyValue_BytesValue{BytesValue: bytes.Clone(e.Line)}
	}
	r, err := record.Parse(e.Line)
	if err != nil {
		return l
	}
	l.TimeUnixNano = uint64(r.Time.UnixNano())
	if slices.Contains(warned, r.Verdict) || r.Kind == record.KindGap || r.Kind == record.KindDropped {
		l.SeverityNumber, l.SeverityText = logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
	}
	for _, a := range []struct{ key, value string }{
		{"kind", string(r.Kind)}, {"verdict", r.Verdict}, {"server", r.Server}, {"tool", r.Tool}, {"agent", r.Agent}, {"values", string(e.Values)},
	} {
		if a.value != "" {
			l.Attributes = append(l.Attributes, text("thoughtgate."+a.key, a.value))
		}
	}
	return l
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

// post sends a request. It returns nil if the collector has taken all of it.
func (c *Collector) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	hide := strings.NewReplacer()
	if c.headerFile != "" {
		name, value, err := ReadHeader(c.headerFile)
		if err != nil {
			return err
		}
		request.Header.Set(name, value)
		_, token, _ := strings.Cut(value, " ")
		if hide = strings.NewReplacer(value, "[secret]"); token != "" {
			hide = strings.NewReplacer(value, "[secret]", token, "[secret]")
		}
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	answer, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the collector's answer: %w", err)
	}
	wait := refusedAgain
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		if err = partial(answer.Header.Get("Content-Type"), said); err == nil {
			return nil
		}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		wait, _ = retryafter.Parse(answer.Header.Get("Retry-After"), time.Now())
		wait = min(wait, mostRetryAfter)
		fallthrough
	default:
		err = fmt.Errorf("the collector %s answers %s: %q", c.url, answer.Status, said[:min(len(said), maxAnswerShown)])
	}
	c.notBefore = time.Now().Add(wait)
	return errors.New(hide.Replace(err.Error()))
}

// partial returns an error unless the answer of a collector, an ExportLogsServiceResponse, says that
// it has taken all records.
func partial(kind string, answer []byte) error {
	if len(answer) == 0 {
		return nil
	}
	if kind != "application/x-protobuf" {
		return fmt.Errorf("the collector's answer is %.80q instead of application/x-protobuf, so whether it has taken the records is not known: %q", kind, answer[:min(len(answer), maxAnswerShown)])
	}
	success, err := field(answer, 1)
	if err != nil {
		return fmt.Errorf("read the collector's answer: %w", err)
	}
	rejected, err := field(success, 1)
	if err != nil {
		return fmt.Errorf("read the collector's answer: %w", err)
	}
	n, _ := protowire.ConsumeVarint(rejected)
	if len(rejected) == 0 || n == 0 {
		return nil // what else it says is a warning
	}
	why, err := field(success, 2)
	if err != nil {
		return fmt.Errorf("read the collector's answer: %w", err)
	}
	return fmt.Errorf("the collector has rejected %d records: %q", n, why[:min(len(why), maxAnswerShown)])
}

// field returns the last field of a number in a message: its content, or the text of its varint.
func field(message []byte, number protowire.Number) (value []byte, err error) {
	for len(message) > 0 {
		n, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
		if length = protowire.ConsumeFieldValue(n, kind, message); length < 0 {
			return nil, protowire.ParseError(length)
		}
		if n == number {
			if value = message[:length]; kind == protowire.BytesType {
				value, _ = protowire.ConsumeBytes(value)
			}
		}
		message = message[length:]
	}
	return value, nil
}

// ReadHeader reads a header for requests from a file that only this user can read: one line, as
// "Authorization: Bearer TOKEN".
func ReadHeader(path string) (name, value string, err error) {
	line, err := secret.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("read the header for the collector: %w", err)
	}
	name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
	if value = strings.TrimSpace(value); !ok || name == "" || value == "" || strings.ContainsAny(name+value, "\r\n") {
		return "", "", fmt.Errorf("read the header for the collector: %s must have one line, as Authorization: Bearer TOKEN", path)
	}
	return name, value, nil
}
