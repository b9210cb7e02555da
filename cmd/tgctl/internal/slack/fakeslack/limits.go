package fakeslack

import (
	"encoding/json"
	"unicode/utf16"
)

// block holds the parts of a block that have a limit.
type block struct {
	Type     string    `json:"type"`
	Text     *text     `json:"text"`
	Elements []element `json:"elements"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type element struct {
	Text    *text    `json:"text"`
	Value   string   `json:"value"`
	Action  string   `json:"action_id"`
	Style   string   `json:"style"`
	Confirm *confirm `json:"confirm"`
}

type confirm struct {
	Title   *text `json:"title"`
	Text    *text `json:"text"`
	Confirm *text `json:"confirm"`
	Deny    *text `json:"deny"`
}

// check tests a message against Slack's published limits, and against the unpublished limit on
// all blocks together. It returns Slack's error code, or "".
func check(fallback, blocks string) string {
	if length(fallback) > 40_000 {
		return "msg_too_long"
	}
	if fallback == "" && blocks == "" {
		return "no_text"
	}
	var all []block
	if blocks != "" && json.Unmarshal([]byte(blocks), &all) != nil {
		return "invalid_blocks_format"
	}
	if len(all) > 50 {
		return "too_many_blocks"
	}
	sum := 0
	for _, b := range all {
		most := 3000
		if b.Type == "header" {
			most = 150
		}
		if b.Text != nil && (length(b.Text.Text) < 1 || length(b.Text.Text) > most) {
			return "invalid_blocks"
		}
		if b.Text != nil {
			sum += length(b.Text.Text)
		}
		for _, e := range b.Elements {
			c := e.Confirm
			switch {
			case e.Text != nil && length(e.Text.Text) > 75 && b.Type == "actions", length(e.Value) > 2000:
				return "invalid_blocks"
			case c != nil && (length(c.Title.Text) > 100 || length(c.Text.Text) > 300 || length(c.Confirm.Text) > 30 || length(c.Deny.Text) > 30):
				return "invalid_blocks"
			}
		}
	}
	if sum > 13_000 {
		return "msg_blocks_too_long"
	}
	return ""
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }
