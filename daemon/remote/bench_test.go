package remote

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkCall compares a call through a connection with the same POST by net/http alone.
func BenchmarkCall(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer(1))
	}))
	defer s.Close()
	line := []byte(call(1))
	b.Run("http", func(b *testing.B) {
		t := &http.Transport{}
		defer t.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, bytes.NewReader(line))
			resp, err := t.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
	})
	b.Run("remote", func(b *testing.B) {
		n := NewNetwork(net.DefaultResolver, slog.New(slog.DiscardHandler))
		defer n.Close()
		a := &agent{lines: make(chan string, 16), gone: make(chan error, 1)}
		conn, err := n.Open(Server{ID: "s", Address: s.URL, Policy: Named}, a)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Leave()
		b.ReportAllocs()
		for b.Loop() {
			if err := conn.Write(b.Context(), line); err != nil {
				b.Fatal(err)
			}
			<-a.lines
		}
	})
}
