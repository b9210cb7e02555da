package fakeslack

import (
	"encoding/json"
	"slices"
	"strings"
)

// Button is one below a message.
type Button struct{ Action, Value, Confirm string }

// Button is the one with this action, nil when the message has none.
func (m *Message) Button(action string) *Button {
	for _, b := range m.parsed() {
		for _, e := range b.Elements {
			if e.Action != action {
				continue
			}
			found := &Button{Action: e.Action, Value: e.Value}
			if e.Confirm != nil {
				found.Confirm = e.Confirm.Text.Text
			}
			return found
		}
	}
	return nil
}

func (m *Message) parsed() []block {
	var all []block
	_ = json.Unmarshal(m.Blocks, &all) // it was taken, so it is right
	return all
}

// Shown is what stands in a message, each text on lines of its own, and its buttons
// in brackets.
func (m *Message) Shown() string {
	var b strings.Builder
	for _, block := range m.parsed() {
		if block.Text != nil {
			b.WriteString(block.Text.Text + "\n")
		}
		for _, e := range block.Elements {
			b.WriteString("[" + e.Text.Text + "]\n")
		}
	}
	return b.String()
}

// Messages are those that stand there now, oldest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Message, 0, len(s.messages))
	for _, m := range s.messages {
		all = append(all, *m)
	}
	return all
}

// Ephemerals are those that users were shown, oldest first.
func (s *Server) Ephemerals() []Ephemeral {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ephemerals)
}

// Views are the forms that were opened, oldest first.
func (s *Server) Views() []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.views)
}

// Calls is how often a method was called.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Connections is how many there are now.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets)
}

// Envelope is how one stands that was sent.
func (s *Server) Envelope(id string) Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sent[id]; e != nil {
		return *e
	}
	return Envelope{}
}

// Delete takes a message away, as a person can.
func (s *Server) Delete(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = slices.DeleteFunc(s.messages, func(other *Message) bool { return other.TS == m.TS })
}
