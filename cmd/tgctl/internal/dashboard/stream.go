package dashboard

import (
	"encoding/json"
	"net/http"
	"time"
)

const (
	streamPace  = 250 * time.Millisecond // between two updates of a reader
	streamBeat  = 15 * time.Second       // after which an idle stream is written to, so that a lost reader is noticed
	streamWrite = 10 * time.Second       // for a reader to take an update; it is cut then
	maxStreams  = 8                      // at a time
)

// stream sends the feed as server-sent events until the reader leaves or is too slow.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "The dashboard is open too often; close one of its tabs.", http.StatusTooManyRequests)
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Time{}) // that of the request, which has been read
	w.Header().Set("Content-Type", "text/event-stream")
	pace, beat := time.NewTicker(s.pace), time.NewTicker(streamBeat)
	defer pace.Stop()
	defer beat.Stop()
	var read position
	for {
		u, changed := s.feed.since(&read)
		text, err := json.Marshal(u)
		if err == nil {
			err = conn.SetWriteDeadline(time.Now().Add(s.patience))
		}
		if err == nil {
			_, err = w.Write(append(append([]byte("data: "), text...), "\n\n"...))
		}
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
		case <-r.Context().Done():
			return
		}
		select {
		case <-pace.C:
		case <-r.Context().Done():
			return
		}
	}
}
