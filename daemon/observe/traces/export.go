package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// exporter sends requests to one collector. It uses only its settings: no proxy, no redirects, no
// environment variables. It implements otlptrace.Client, because the SDK's own exporter obeys
// environment variables and is 1 MB larger.
type exporter struct {
	otlp      *otlptrace.Exporter
	url       string
	headers   map[string]string
	transport *http.Transport
	secrets   []string // values that no error may show
}

const (
	tracesPath = "/v1/traces" // path of a collector below its endpoint
	maxAnswer  = 4 << 10      // limit of a collector's answer that is read, in bytes
	tries      = 3
)

func newExporter(s settings) *exporter {
	u, err := url.Parse(s.endpoint)
	if err != nil { // can't happen: the configuration was checked
		panic("traces: the endpoint: " + err.Error())
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if u.Scheme == "http" {
		dialer.Control = onlyLoopback
	}
	e := &exporter{
		url: u.JoinPath(tracesPath).String(), headers: s.headers,
		transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: 5 * time.Second,
		},
	}
	for _, value := range s.headers {
		e.secrets = append(e.secrets, value)
		if _, token, ok := strings.Cut(value, " "); ok {
			e.secrets = append(e.secrets, token)
		}
	}
	e.otlp = otlptrace.NewUnstarted(e)
	return e
}

// onlyLoopback refuses the address of another machine, whatever name resolved to it.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && !config.Loopback(host) {
		err = fmt.Errorf("%s is not this machine; http is only allowed to this machine", host)
	}
	return err
}

// export sends spans. Its error may be logged.
func (e *exporter) export(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.otlp.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the collector does not answer: %w", cause)
	}
	text := err.Error()
	for _, s := range e.secrets { // a collector may quote a header
		if s != "" {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	return errors.New(bounded(string(display.Text(text)), 400))
}

// Start implements otlptrace.Client.
func (e *exporter) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (e *exporter) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client. It retries the failures that the protocol allows to
// retry, until ctx ends.
func (e *exporter) UploadTraces(ctx context.Context, spans []*pb.ResourceSpans) error {
	// This has the same encoding as the request of the collector's service. The Go package of that
	// service would link a gateway to gRPC.
	body, err := proto.Marshal(&pb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	for pause := 500 * time.Millisecond; ; pause *= 2 {
		again, err := e.post(ctx, body)
		if err == nil || !again || pause > 500*time.Millisecond<<(tries-2) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends one request, and reports whether a failed one may be retried.
func (e *exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, value := range e.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := e.transport.RoundTrip(r) // follows no redirect
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, err
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the collector answered %s: %q", answer.Status, said)
}

func (e *exporter) close() { e.transport.CloseIdleConnections() }
