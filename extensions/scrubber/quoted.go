package main

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// offsets returns, for each byte of the decoded string and for its end, the offset in quoted of
// the character that it comes from. quoted is a valid JSON string with its quotes.
func offsets(quoted []byte) []int {
	at := make([]int, 0, len(quoted))
	i := 1
	for i < len(quoted)-1 {
		size, width := 1, 1 // of the character in quoted, and decoded
		if quoted[i] == '\\' {
			size, width = escape(quoted[i:])
		}
		for range width {
			at = append(at, i)
		}
		i += size
	}
	return append(at, i)
}

// escape returns the lengths in bytes of the escape sequence at the start of text, and of what
// it stands for.
func escape(text []byte) (size, width int) {
	if text[1] != 'u' {
		return 2, 1
	}
	first := hex(text[2:6])
	if !utf16.IsSurrogate(first) {
		return 6, utf8.RuneLen(first)
	}
	if len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
		if r := utf16.DecodeRune(first, hex(text[8:12])); r != utf8.RuneError {
			return 12, utf8.RuneLen(r)
		}
	}
	return 6, utf8.RuneLen(utf8.RuneError)
}

func hex(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 32) // the decoder has validated them
	return rune(n)
}
