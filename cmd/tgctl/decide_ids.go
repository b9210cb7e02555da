package main

import (
	"fmt"
	"slices"
	"strings"
)

// approvalID is the id that a person meant: a-17 is A-17.
func approvalID(typed string) string {
	if letter, number, ok := strings.Cut(typed, "-"); ok && len(letter) == 1 && strings.Trim(number, "0123456789") == "" {
		return strings.ToUpper(typed)
	}
	return typed
}

// distinct returns ids as they were meant, each once, in their order.
func distinct(ids []string) []string {
	var out []string
	for _, id := range ids {
		if id = approvalID(id); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// about puts id before err, which may name it already.
func about(id string, err error) error {
	if strings.Contains(err.Error(), id) {
		return err
	}
	return fmt.Errorf("%s: %w", id, err)
}
