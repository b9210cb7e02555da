package main

import (
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"

	"rsc.io/qr"
)

// keyText is a key of codes as people type it into an app.
func keyText(key []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)
}

// keyAddress is what an app reads from a QR code: the key, and what it is for.
func keyAddress(key []byte, account string) string {
	return fmt.Sprintf("otpauth://totp/ThoughtGate:%s?secret=%s&issuer=ThoughtGate", url.PathEscape(account), keyText(key))
}

// qrQuiet is how many modules around a code stay light.
const qrQuiet = 2

// qrLines draws a text as a QR code, two modules to a character. Light is drawn
// and dark left out, so that it can be read where text is light on dark; most
// readers take it either way.
func qrLines(text string) ([]string, error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return nil, err
	}
	light := func(x, y int) bool {
		return y < code.Size+qrQuiet && !code.Black(x, y)
	}
	var lines []string
	for y := -qrQuiet; y < code.Size+qrQuiet; y += 2 {
		var line strings.Builder
		for x := -qrQuiet; x < code.Size+qrQuiet; x++ {
			switch upper, lower := light(x, y), light(x, y+1); {
			case upper && lower:
				line.WriteRune('█')
			case upper:
				line.WriteRune('▀')
			case lower:
				line.WriteRune('▄')
			default:
				line.WriteRune(' ')
			}
		}
		lines = append(lines, line.String())
	}
	return lines, nil
}
