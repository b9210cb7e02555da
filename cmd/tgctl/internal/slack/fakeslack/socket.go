package fakeslack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// socket is one Socket Mode connection.
type socket struct {
	conn    *websocket.Conn
	leaving bool // asked to end, so nothing more is sent to it; guarded by the server's mutex

	write sync.Mutex
}

func (c *socket) send(v any) error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.conn.WriteJSON(v)
}

// Envelope is an envelope that was sent over Socket Mode.
type Envelope struct {
	ID    string
	Sent  time.Time
	Acked time.Time // time of the first acknowledgement, or zero
	Acks  int

	content map[string]any
}

func (s *Server) open(*request) any {
	s.opened++
	if s.elsewhere != "" {
		return map[string]any{"ok": true, "url": s.elsewhere}
	}
	return map[string]any{"ok": true, "url": strings.Replace(s.http.URL, "http", "ws", 1) + fmt.Sprintf("/socket?ticket=%d", s.opened)}
}

// socket serves one connection until it ends.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "https://api.slack.com" }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &socket{conn: conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = c.send(map[string]any{ // if the peer has disconnected, serve returns
		"type": "hello", "num_connections": len(s.sockets) + 1, "connection_info": map[string]any{"app_id": "A0FAKE"},
		"debug_info": map[string]any{"host": "fake", "build_number": 1, "approximate_connection_time": 18060},
	})
	s.sockets[c] = true
	for _, e := range s.sent { // unacknowledged envelopes are sent again
		if e.Acks == 0 {
			_ = c.send(e.content)
		}
	}
	s.mu.Unlock()
	c.serve(s)
	s.mu.Lock()
	delete(s.sockets, c)
}

// serve sends pings and handles acknowledgements until the connection ends.
func (c *socket) serve(s *Server) {
	conn := c.conn
	stop := make(chan struct{})
	var pings sync.WaitGroup
	pings.Go(func() {
		ping := time.NewTicker(5 * time.Second)
		defer ping.Stop()
		for {
			_ = conn.WriteControl(websocket.PingMessage, []byte("Ping"), time.Now().Add(time.Second))
			select {
			case <-ping.C:
			case <-stop:
				return
			}
		}
	})
	for {
		var ack struct {
			ID string `json:"envelope_id"`
		}
		if conn.ReadJSON(&ack) != nil {
			break
		}
		s.mu.Lock()
		if e := s.sent[ack.ID]; e != nil {
			if e.Acks++; e.Acks == 1 {
				e.Acked = time.Now()
			}
		}
		s.mu.Unlock()
	}
	close(stop)
	pings.Wait()
	conn.Close()
}

// Disconnect asks every connection to end, for a reason such as "warning" or
// "refresh_requested". If reason is empty, it closes the connections.
func (s *Server) Disconnect(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		c.leaving = true
		if reason != "" {
			_ = c.send(map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{"host": "fake"}})
			continue
		}
		c.conn.Close()
	}
}

// Lead makes clients connect to another address.
func (s *Server) Lead(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere = address
}

// Send sends an envelope over one of the connections, and reports whether there was one. If id
// is empty, a new id is used.
func (s *Server) Send(id, kind string, payload any) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" {
		id = fmt.Sprintf("envelope-%d", len(s.sent)+1)
	}
	content := map[string]any{"envelope_id": id, "type": kind, "payload": payload, "accepts_response_payload": false}
	for c := range s.sockets {
		if !c.leaving && c.send(content) == nil {
			if s.sent[id] == nil {
				s.sent[id] = &Envelope{ID: id, Sent: time.Now(), content: content}
			}
			return id, true
		}
	}
	return id, false
}

// Press describes the press of a button.
type Press struct {
	User, Action string
	Message      Message
	Value        string // empty: the button's own value
	Envelope     string // id of the envelope; empty for a new one
}

// Press sends the press of a button like Slack does. It returns the envelope's id, or "" if
// there is no such button or no connection.
func (s *Server) Press(p Press) string {
	if p.Value == "" {
		b := p.Message.Button(p.Action)
		if b == nil {
			return ""
		}
		p.Value = b.Value
	}
	s.mu.Lock()
	message := s.payload(&p.Message)
	s.mu.Unlock()
	id, ok := s.Send(p.Envelope, "interactive", map[string]any{
		"type": "block_actions", "user": user(p.User), "api_app_id": "A0FAKE", "token": "old", "trigger_id": "trigger." + p.User,
		"container": map[string]any{"type": "message", "message_ts": p.Message.TS, "channel_id": p.Message.Channel, "is_ephemeral": false},
		"team":      map[string]any{"id": Team, "domain": "fake"}, "enterprise": nil, "is_enterprise_install": false,
		"channel": map[string]any{"id": p.Message.Channel, "name": "ops"}, "message": message, "state": map[string]any{"values": map[string]any{}},
		"response_url": "https://hooks.slack.com/actions/fake",
		"actions": []any{map[string]any{
			"action_id": p.Action, "block_id": "answer", "text": map[string]any{"type": "plain_text", "text": p.Action, "emoji": false},
			"value": p.Value, "type": "button", "action_ts": "1763600001.000000",
		}},
	})
	if !ok {
		return ""
	}
	return id
}

// Submit submits a form with a reason. It returns the envelope's id, or "" if there is no
// connection.
func (s *Server) Submit(v View, who, reason string) string {
	id, ok := s.Send("", "interactive", map[string]any{
		"type": "view_submission", "user": user(who), "api_app_id": "A0FAKE", "token": "old", "trigger_id": "trigger." + who,
		"team": map[string]any{"id": Team, "domain": "fake"}, "response_urls": []any{}, "is_enterprise_install": false,
		"view": map[string]any{
			"id": "V0FAKE", "team_id": Team, "type": "modal", "blocks": []any{}, "private_metadata": v.Metadata, "callback_id": v.Callback, "hash": "1.a",
			"state": map[string]any{"values": map[string]any{"reason": map[string]any{"reason": map[string]any{"type": "plain_text_input", "value": reason}}}},
		},
	})
	if !ok {
		return ""
	}
	return id
}

func user(id string) map[string]any {
	return map[string]any{"id": id, "username": "somebody", "name": "somebody", "team_id": Team}
}

// payload returns a message in the form in which Slack includes it in envelopes.
func (s *Server) payload(m *Message) map[string]any {
	blocks := m.Blocks
	if len(blocks) == 0 {
		blocks = json.RawMessage("[]")
	}
	p := map[string]any{"type": "message", "bot_id": "B0FAKE", "user": Bot, "team": Team, "ts": m.TS, "text": m.Text, "blocks": blocks}
	if m.Thread != "" {
		p["thread_ts"] = m.Thread
	}
	return p
}
