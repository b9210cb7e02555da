package ui

import (
	"strings"

	"rsc.io/qr"
)

// qrQuiet is the width of the light margin in modules.
const qrQuiet = 2

// QRCode draws text as a QR code, with two modules per character. It draws the light modules,
// so that the code is correct on terminals with light text on dark. Most readers also accept it
// inverted.
func QRCode(text string) ([]string, error) {
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
