package main

import (
	"fmt"
	"slices"
	"strings"
)

// approvalID returns the id that a person meant: a-17 is A-17.
func approvalID(typed string) string {
	if letter, number, ok := strings.Cut(typed, "-"); ok && len(letter) == 1 && strings.Trim(number, "0123456789") == "" {
		return strings.ToUpper(typed)
	}
	return typed
}

// distinct normalizes ids and removes duplicates. It keeps their order.
func distinct(ids []string) []string {
	var out []string
	for _, id := range ids {
		if id = approvalID(id); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// about puts id before err, unless err already names it.
func about(id string, err error) error {
	if strings.Contains(err.Error(), id) {
		return err
	}
	return fmt.Errorf("%s: %w", id, err)
}
