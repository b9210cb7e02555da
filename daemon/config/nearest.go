package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// meant is the hint for a word that is not one of known: the nearest of them,
// else all of them.
func meant(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return ""
	}
	return "known here: " + strings.Join(known, ", ")
}

// Nearest returns the word of known that somebody who wrote word is likely to
// have meant, or nothing when none is near.
func Nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	best, at := "", 1+len([]rune(word))/3
	for _, k := range known {
		if strings.EqualFold(k, word) {
			return k
		}
		if d := distance([]rune(strings.ToLower(word)), []rune(k)); d < at || d == at && best == "" {
			best, at = k, d
		}
	}
	return best
}

// distance is how many characters must be put in, taken out, replaced or
// swapped with their neighbour to get from a to b.
func distance(a, b []rune) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// list joins words as a person would.
func list(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// keysOf returns the keys of m in order.
func keysOf[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
