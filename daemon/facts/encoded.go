package facts

import (
	"bytes"
	"encoding/hex"
	"iter"
	"slices"
)

const (
	shortestBase64 = 24   // shorter runs hold no secret worth the time
	mixedBase64    = 4096 // up to this length, a run may begin inside a longer one
	mostNested     = 3    // base64 in base64 in base64
	mostRecoded    = 64 << 10
)

// base64Runs decodes each run of base64 or hex digits, also with marks between the bytes, in text and calls found with the result if
// it could be text. It does the same with the runs in the result. left is the number of bytes
// that may still be decoded; it limits only nested runs.
func base64Runs(text []byte, depth int, left *int, found func(decoded []byte)) {
	var buffer []byte
	decode := func(by func(dst, run []byte) []byte, run []byte) {
		if *left -= len(run); *left < 0 && depth > 0 {
			return
		}
		buffer = by(buffer[:0], run)
		if len(run) > mixedBase64 || looksLikeText(buffer) {
			found(buffer)
			if depth+1 < mostNested {
				base64Runs(buffer, depth+1, left, found)
			}
		}
	}
	for run := range base64Stretches(text, shortestBase64) {
		shifts := 1
		if len(run) <= mixedBase64 {
			shifts = 4
		}
		for shift := range shifts {
			if one := run[shift:]; len(one) > mixedBase64 || mayDecodeToText(one) {
				decode(decodeBase64, one)
			}
		}
		if isHex(run) {
			decode(decodeHex, run)
		} else if digits := dashedHex(run); digits != nil {
			decode(decodeHex, digits)
		}
	}
}

// mayDecodeToText reports from the first letters of run whether it could be the base64 of text,
// as defined by looksLikeText. It saves decoding most runs, which are paths and names.
func mayDecodeToText(run []byte) bool {
	var room [48]byte
	head := decodeBase64(room[:0], run[:min(len(run), 64)])
	return unprintable(head)*10 <= len(run)*6/8
}

func isHex(run []byte) bool {
	return len(run)%2 == 0 && len(bytes.TrimLeft(run, "0123456789abcdefABCDEF")) == 0
}

// dashedHex returns the digits of a run of bytes in hex with one mark between each two, or nil.
func dashedHex(run []byte) []byte {
	if len(run)%3 != 2 || run[2] != '-' && run[2] != '_' {
		return nil
	}
	digits := make([]byte, 0, len(run))
	for i, c := range run {
		if i%3 < 2 {
			digits = append(digits, c)
		} else if c != run[2] {
			return nil
		}
	}
	if !isHex(digits) {
		return nil
	}
	return digits
}

// decodeHex decodes a run for which isHex is true.
func decodeHex(dst, run []byte) []byte {
	dst, _ = hex.AppendDecode(dst, run)
	return dst
}

// base64Value maps a letter of either base64 alphabet to 1 + its value, and all others to 0.
var base64Value = func() (table [256]uint8) {
	for i, letter := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		table[letter] = uint8(i + 1)
	}
	table['-'], table['_'] = table['+'], table['/']
	return table
}()

func decodeBase64(dst, run []byte) []byte {
	dst = slices.Grow(dst, len(run)*6/8)
	bits := uint32(0) // each letter shifts in six bits
	for i, letter := range run {
		bits = bits<<6 | uint32(base64Value[letter]-1)
		if n := i % 4; n > 0 {
			dst = append(dst, byte(bits>>(6-2*n)))
		}
	}
	return dst
}

// looksLikeText reports whether nearly all of b is printable ASCII. In random bytes, about a
// third is.
func looksLikeText(b []byte) bool { return unprintable(b)*10 <= len(b) }

func unprintable(b []byte) (n int) {
	for _, c := range b {
		if c-' ' > '~'-' ' && c != '\n' && c != '\t' && c != '\r' {
			n++
		}
	}
	return n
}

// base64Stretches yields the runs of base64 letters in text that are at least shortest bytes
// long.
func base64Stretches(text []byte, shortest int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 0; i < len(text); {
			if base64Value[text[i]] == 0 {
				i++
				continue
			}
			start := i
			for i < len(text) && base64Value[text[i]] != 0 {
				i++
			}
			if i-start >= shortest && !yield(text[start:i]) {
				return
			}
		}
	}
}
