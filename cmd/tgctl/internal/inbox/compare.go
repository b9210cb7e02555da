package inbox

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// compared lays out how q differs from the call that was approved last.
func (p *past) compared(q *pb.Approval, now time.Time, columns int) []ui.Line {
	if p.approved == nil {
		return ui.InTone(display.Faint, display.Wrap("No approved call of this tool is on record.", columns)...)
	}
	was, is := p.approved, q.GetArguments()
	if !p.approved.params {
		is = comparedPart(q)
	}
	name := display.Name(was.question) + ", " + ui.Ago(was.at, now)
	see := "tgctl audit show " + display.Safe(strconv.FormatUint(was.seq, 10))
	say := func(text display.Safe) []ui.Line { return ui.InTone(display.Faint, display.Wrap(text, columns)...) }
	var lines []ui.Line
	if was.launch != q.GetLaunch() {
		lines = say("The server was started by a different command for the last approved call.")
	}
	switch {
	case !was.kept:
		return append(lines, say("Last approved: "+name+". Its arguments were not recorded.")...)
	case was.args == nil:
		return append(lines, say("Last approved: "+name+". Only the beginning of its arguments was recorded: "+see)...)
	case len(was.args)+len(is) > maxCompareBytes:
		return append(lines, say("Last approved: "+name+". The arguments are too long to compare here: "+see)...)
	}
	diff := differing(was.args, is, columns)
	if !was.params && q.GetMethod() == ui.ToolCall && ui.ArgumentsOf(ui.ToolCall, q.GetArguments()) == nil {
		lines = append(lines, say("Unlike the last approved call, this one has params besides its arguments; see above.")...)
	}
	if len(diff) == 0 {
		return append(lines, say("The same arguments as in the last approved call, "+name+".")...)
	}
	lines = append(lines, say("compared with the last approved call, "+name+", as recorded:")...)
	if bytes.Contains(was.args, []byte(`"hmac:`)) {
		lines = append(lines, say("(secrets are recorded as hmac:..., so they differ here even if they are equal)")...)
	}
	return append(lines, diff...)
}

// comparedPart returns the part of a question's params that the record of a call keeps:
// the arguments, or all params if there are none.
func comparedPart(q *pb.Approval) []byte {
	if arguments := argumentsIn(q.GetArguments()); arguments != nil {
		return arguments
	}
	return q.GetArguments()
}

// argumentsIn returns the arguments in raw params, nil if there are none.
func argumentsIn(params []byte) []byte {
	members, _ := rawjson.Members(params)
	for _, m := range members {
		if m.Name == "arguments" {
			return m.Value
		}
	}
	return nil
}

// differing lays out the lines in which two JSON values differ, with some context. It
// returns nil if both are displayed alike.
func differing(was, is []byte, columns int) []ui.Line {
	text := func(raw []byte) string { return string(display.JSON(raw, ui.Behind(2, columns))) + "\n" }
	unified := udiff.Unified("", "", text(was), text(is))
	if unified == "" {
		return nil
	}
	var lines []ui.Line
	for line := range strings.Lines(unified) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case len(lines) == 0 && (line == "--- " || line == "+++ "): // the header of a diff names files; here are none
		case strings.HasPrefix(line, "@@"):
			lines = append(lines, ui.Line{Text: display.Safe(line), Tone: display.Faint})
		default:
			lines = append(lines, ui.Line{Text: display.Safe(line[:1] + " " + line[1:]), Tone: ui.DiffTone(line[:1])})
		}
	}
	return lines
}
