package inbox

import (
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"

	"rsc.io/qr"
)

// keyText returns a TOTP key as people type it into an app.
func keyText(key []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)
}

// keyAddress returns the URI in the QR code: the key and its account.
func keyAddress(key []byte, account string) string {
	return fmt.Sprintf("otpauth://totp/ThoughtGate:%s?secret=%s&issuer=ThoughtGate", url.PathEscape(account), keyText(key))
}

// qrQuiet is the width of the light margin in modules.
const qrQuiet = 2

// qrLines draws text as a QR code, with two modules per character. It draws the light modules,
// so that the code is correct on terminals with light text on dark. Most readers also accept it
// inverted.
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
