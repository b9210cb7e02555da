package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// CheckWord checks a value of a flag that may only be one of words. It accepts an empty one.
func CheckWord(what, value string, words []string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	if near := nearest(value, words); near != "" {
		return Misuse("unknown %s %q: did you mean %s?", what, value, near)
	}
	return Misuse("unknown %s %q: use one of %s", what, value, strings.Join(words, ", "))
}

// nearest returns the one of words that value is most like; empty if it is like none.
func nearest(value string, words []string) string {
	best, common := "", 2 // a beginning in common says more than the number of letters that differ
	for _, word := range words {
		n := 0
		for n < min(len(word), len(value)) && word[n] == value[n] {
			n++
		}
		if n > common && 2*n >= len(word) {
			best, common = word, n
		}
	}
	if best != "" {
		return best
	}
	all := &cobra.Command{} // it knows how to compare names of commands
	for _, word := range words {
		all.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	for all.SuggestionsMinimumDistance = 1; all.SuggestionsMinimumDistance <= (len(value)+1)/2; all.SuggestionsMinimumDistance++ {
		if near := all.SuggestionsFor(value); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}

// UnknownError says that a filter names nothing that is known, so that a typo does not look as if there were
// nothing to find.
type UnknownError struct {
	What, Name string
	Known      []string // some that are known; may be empty
}

// maxKnown is how many known names an UnknownError lists.
const maxKnown = 12

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("no %s matches %q", e.What, e.Name)
	if len(e.Known) > 0 {
		text += "; known: " + string(NameList(e.Known[:min(len(e.Known), maxKnown)]))
	}
	return text
}

// CompleteFlag completes the values of a flag of cmd.
func CompleteFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("ui: " + err.Error()) // cmd has no such flag
	}
}

// OneOf completes a flag that may only be one of words.
func OneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
