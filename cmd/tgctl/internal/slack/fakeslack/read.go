package fakeslack

import (
	"encoding/json"
	"slices"
	"strings"
)

// Button is a button below a message.
type Button struct{ Action, Value, Confirm string }

// Button returns the message's button with the given action, or nil.
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
	_ = json.Unmarshal(m.Blocks, &all) // check accepted the message, so the blocks are valid
	return all
}

// Shown returns the text of a message. Each text is on lines of its own; buttons are in
// brackets.
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

// Messages returns the messages that currently exist, oldest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Message, 0, len(s.messages))
	for _, m := range s.messages {
		all = append(all, *m)
	}
	return all
}

// Ephemerals returns the messages that were shown to single users, oldest first.
func (s *Server) Ephemerals() []Ephemeral {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ephemerals)
}

// Views returns the forms that were opened, oldest first.
func (s *Server) Views() []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.views)
}

// Calls returns how often a method was called.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Connections returns the number of current Socket Mode connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets)
}

// Envelope returns the state of a sent envelope, or the zero value if there is none.
func (s *Server) Envelope(id string) Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sent[id]; e != nil {
		return *e
	}
	return Envelope{}
}

// Delete deletes a message, like a user does.
func (s *Server) Delete(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = slices.DeleteFunc(s.messages, func(other *Message) bool { return other.TS == m.TS })
}
