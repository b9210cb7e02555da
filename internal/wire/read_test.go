package wire

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/programs"
)

// both stands for either side.
const both = 2

// call returns a tools/call with these raw arguments.
func call(arguments string) string {
	return `{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{"name":"read","arguments":` + arguments + `}}`
}

func arrow(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

// members returns an object with n members.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"k`)
		b.WriteString(strconv.Itoa(i))
		b.WriteString(`":0`)
	}
	return "{" + b.String()[1:] + "}"
}

type readCase struct {
	row   string // of the wire rules
	name  string
	from  Side // or both
	line  string
	fault *Refusal // nil: accepted
	id    string   // of a refusal, raw
	mute  bool     // the refusal must not be answered
}

var readCases = []readCase{
	{row: "duplicates", name: "top level", from: both, line: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, fault: errDuplicate, id: "1"},
	{row: "duplicates", name: "in params", from: both, line: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","name":"b"}}`, fault: errDuplicate, id: "2"},
	{row: "duplicates", name: "of id", from: both, line: `{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}`, fault: errDuplicate},
	{row: "duplicates", name: "after unescaping", from: both, line: `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`, fault: errDuplicate, id: "5"},
	{row: "duplicates", name: "of id after unescaping", from: both, line: `{"jsonrpc":"2.0","id":5,"\u0069d":6,"method":"ping"}`, fault: errDuplicate},
	{row: "duplicates", name: "deep inside arguments", from: both, line: call(`{"a":[{"b":{"c":1,"c":2}}]}`), fault: errDuplicate, id: "71"},
	{row: "duplicates", name: "in a result", from: FromServer, line: `{"jsonrpc":"2.0","id":7,"result":{"content":[],"content":[1]}}`, fault: errDuplicate, id: "7", mute: true},
	{row: "duplicates", name: "empty names", from: both, line: call(`{"":1,"":2}`), fault: errDuplicate, id: "71"},

	{row: "folded twins", name: "METHOD beside method", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"ping","METHOD":"tools/call"}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "Method alone", from: both, line: `{"jsonrpc":"2.0","id":8,"Method":"tools/call"}`, fault: errTwin, id: "8", mute: true},
	{row: "folded twins", name: "Id beside id", from: both, line: `{"jsonrpc":"2.0","id":8,"Id":9,"method":"ping"}`, fault: errTwin},
	{row: "folded twins", name: "long s", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a"},"paramſ":{"name":"b"}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "long s, escaped", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/call","param\u017f":{"name":"b"}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "Jsonrpc", from: both, line: `{"jsonrpc":"2.0","JSONRPC":"1.0","id":8,"method":"ping"}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "Result", from: FromServer, line: `{"jsonrpc":"2.0","id":8,"result":{},"Result":{}}`, fault: errTwin, id: "8", mute: true},
	{row: "folded twins", name: "Error", from: FromServer, line: `{"jsonrpc":"2.0","id":8,"result":{},"erroR":{}}`, fault: errTwin, id: "8", mute: true},
	{row: "folded twins", name: "Name in params", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a","Name":"b"}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "Arguments in params", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a","ARGUMENTS":{}}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "argumentſ in params", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a","argumentſ":{}}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "Uri in params", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"a","URI":"b"}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "_META in params", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"_META":{}}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "Mode of an elicitation", from: FromServer, line: `{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{"mode":"form","Mode":"url"}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "a version that some would see", from: FromAgent, line: `{"jsonrpc":"2.0","id":8,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/ProtocolVersion":"2026-07-28"}}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "ResultType", from: FromServer, line: `{"jsonrpc":"2.0","id":8,"result":{"resultType":"complete","ResultType":"input_required"}}`, fault: errTwin, id: "8", mute: true},

	{row: "folded twins", name: "members by inheritance", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a","__proto__":{"arguments":{"x":1}}}}`, fault: errTwin, id: "8"},
	{row: "folded twins", name: "a method by inheritance", from: both, line: `{"jsonrpc":"2.0","id":8,"method":"ping","__pr\u006fto__":{"params":{}}}`, fault: errTwin, id: "8"},

	{row: "odd names inside arguments", name: "__proto__", from: both, line: call(`{"__proto__":{"x":1},"constructor":{}}`)},
	{row: "odd names inside arguments", name: "twins", from: both, line: call(`{"ID":1,"id":2,"Method":"x","method":"y","NAME":1,"name\u0000":3," name":4}`)},
	{row: "odd names inside arguments", name: "below _meta", from: both, line: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"x":{"Method":1,"method":2}}}}`},
	{row: "odd names inside arguments", name: "other names beside", from: both, line: `{"jsonrpc":"2.0","id":1,"method":"ping","extra":{"Id":1},"idx":3,"params":{"names":1,"nam":2}}`},

	{row: "known names with NUL or blank", name: "NUL", from: both, line: `{"jsonrpc":"2.0","id":9,"method":"ping","method\u0000":"tools/call"}`, fault: errTwin, id: "9"},
	{row: "known names with NUL or blank", name: "blank after", from: both, line: `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"a","name ":"b"}}`, fault: errTwin, id: "9"},
	{row: "known names with NUL or blank", name: "tab before", from: both, line: `{"jsonrpc":"2.0","id":9,"method":"ping","\tparams":{}}`, fault: errTwin, id: "9"},
	{row: "known names with NUL or blank", name: "no-break space", from: both, line: "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"\u00a0params\":{}}", fault: errTwin, id: "9"},
	{row: "known names with NUL or blank", name: "zero width inside", from: both, line: "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"par\u200bams\":{}}", fault: errTwin, id: "9"},
	{row: "known names with NUL or blank", name: "BOM before", from: both, line: "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"\ufeffid\":1}", fault: errTwin},
	{row: "known names with NUL or blank", name: "lone surrogate after", from: FromServer, line: `{"jsonrpc":"2.0","id":9,"result":{},"result\ud800":{}}`, fault: errTwin, id: "9", mute: true},

	{row: "encoding", name: "stray byte", from: both, line: call("{\"t\":\"\xff\"}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "cut sequence", from: both, line: call("{\"t\":\"\xe2\x82\"}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "overlong slash", from: both, line: call("{\"t\":\"\xc0\xaf\"}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "overlong NUL", from: both, line: call("{\"t\":\"\xc0\x80\"}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "surrogate in UTF-8", from: both, line: call("{\"t\":\"\xed\xa0\x80\"}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "beyond Unicode", from: both, line: call("{\"t\":\"\xf4\x90\x80\x80\"}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "in a name", from: both, line: call("{\"t\xfe\":1}"), fault: errUTF8, id: "71"},
	{row: "encoding", name: "BOM", from: both, line: "\ufeff" + call(`{}`), fault: errSyntax, id: "71"},
	{row: "encoding", name: "raw NUL", from: both, line: call("{\"t\":\"a\x00b\"}"), fault: errSyntax, id: "71"},
	{row: "encoding", name: "raw tab in a string", from: both, line: call("{\"t\":\"a\tb\"}"), fault: errSyntax, id: "71"},
	{row: "encoding", name: "raw control in a name", from: both, line: call("{\"\x1f\":\"b\"}"), fault: errSyntax, id: "71"},
	{row: "encoding", name: "UTF-16", from: both, line: "{\x00\"\x00i\x00d\x00\"\x00:\x001\x00}\x00", fault: errSyntax},
	{row: "encoding", name: "characters of all lengths", from: both, line: call(`{"ü":"あ🐍","\u00fc":null}`), fault: errDuplicate, id: "71"},
	{row: "encoding", name: "more characters of all lengths", from: both, line: call(`{"ü":"あ🐍 \ud83d\udc0d \u0000 \/"}`)},

	{row: "lone surrogates", name: "low, from the agent", from: FromAgent, line: call(`{"t":"cut \udc00"}`), fault: errSurrogate, id: "71"},
	{row: "lone surrogates", name: "high, from the agent", from: FromAgent, line: call(`{"t":"cut \ud83d end"}`), fault: errSurrogate, id: "71"},
	{row: "lone surrogates", name: "high before another escape", from: FromAgent, line: call(`{"t":"\ud83d\u0041"}`), fault: errSurrogate, id: "71"},
	{row: "lone surrogates", name: "the wrong way round", from: FromAgent, line: call(`{"t":"\udc0d\ud83d"}`), fault: errSurrogate, id: "71"},
	{row: "lone surrogates", name: "from the server", from: FromServer, line: `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}`},
	{row: "lone surrogates", name: "from the server, beside bad bytes", from: FromServer, line: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"\\ud83d\xff\"}}", fault: errUTF8, id: "1", mute: true},
	{row: "lone surrogates", name: "in an id from the server", from: FromServer, line: `{"jsonrpc":"2.0","id":"\ud83d","result":{}}`, fault: errID},
	{row: "lone surrogates", name: "names that differ in them only", from: FromServer, line: `{"jsonrpc":"2.0","id":1,"result":{"\ud83d":1,"\ud83e":2}}`, fault: errDuplicate, id: "1", mute: true},

	{row: "line separators in strings", name: "U+2028, U+2029, U+0085", from: both, line: call("{\"t\":\"a\u2028b\u2029c\u0085\"}")},
	{row: "line separators in strings", name: "outside strings", from: both, line: "\u2028" + call("{}"), fault: errSyntax, id: "71"},

	{row: "bare CR", name: "between tokens", from: both, line: "{\"jsonrpc\":\"2.0\",\r\"id\":10,\"method\":\"ping\"}", fault: errBareCR, id: "10"},
	{row: "bare CR", name: "between messages", from: both, line: `{"jsonrpc":"2.0","id":10,"method":"ping"}` + "\r" + `{"jsonrpc":"2.0","id":11,"method":"ping"}`, fault: errBareCR},
	{row: "bare CR", name: "in a string", from: both, line: call("{\"t\":\"a\rb\"}"), fault: errBareCR, id: "71"},
	{row: "bare CR", name: "at the end", from: both, line: call("{}") + "\r", fault: errBareCR, id: "71"},
	{row: "bare CR", name: "LF in a line that was handed over", from: both, line: "{\"jsonrpc\":\"2.0\",\n\"id\":10,\"method\":\"ping\"}", fault: errLineBreak, id: "10"},

	{row: "outer blanks", name: "space and tab", from: both, line: " \t " + call("{}") + "\t "},
	{row: "outer blanks", name: "between tokens", from: both, line: `{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "ping" , "params" : { "name" : "x" } }`},
	{row: "outer blanks", name: "U+00A0 before", from: both, line: "\u00a0" + call("{}"), fault: errSyntax, id: "71"},
	{row: "outer blanks", name: "U+3000 after", from: both, line: call("{}") + "\u3000", fault: errTrailing, id: "71"},
	{row: "outer blanks", name: "form feed", from: both, line: "\f" + call("{}"), fault: errSyntax, id: "71"},

	{row: "one value a line", name: "two objects", from: both, line: `{"jsonrpc":"2.0","id":12,"method":"ping"} {"jsonrpc":"2.0","id":13,"method":"ping"}`, fault: errTrailing},
	{row: "one value a line", name: "two objects, touching", from: both, line: `{"jsonrpc":"2.0","id":12,"method":"ping"}{"jsonrpc":"2.0","method":"ping"}`, fault: errTrailing, id: "12"},
	{row: "one value a line", name: "a word after", from: both, line: `{"jsonrpc":"2.0","id":12,"method":"ping"}true`, fault: errTrailing, id: "12"},
	{row: "one value a line", name: "a brace after", from: both, line: `{"jsonrpc":"2.0","id":12,"method":"ping"}}`, fault: errTrailing},
	{row: "one value a line", name: "a comma after", from: both, line: `{"jsonrpc":"2.0","id":12,"method":"ping"},`, fault: errTrailing, id: "12"},
	{row: "almost JSON", name: "line comment", from: both, line: call(`{}`) + ` // x`, fault: errTrailing, id: "71"},
	{row: "almost JSON", name: "comment inside", from: both, line: call(`/* x */{}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "NaN", from: both, line: call(`{"v":NaN}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "Infinity", from: both, line: call(`{"v":-Infinity}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "leading zero", from: both, line: call(`{"v":01}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "plus sign", from: both, line: call(`{"v":+1}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "bare point", from: both, line: call(`{"v":1.}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "hexadecimal", from: both, line: call(`{"v":0x10}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "trailing comma in an object", from: both, line: call(`{"v":1,}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "trailing comma in an array", from: both, line: call(`{"v":[1,]}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "single quotes", from: both, line: call(`{'v':1}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "name without quotes", from: both, line: call(`{v:1}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "number for a name", from: both, line: call(`{1:1}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "missing colon", from: both, line: call(`{"v" 1}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "bad escape", from: both, line: call(`{"v":"\x41"}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "short escape", from: both, line: call(`{"v":"\u00"}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "capital True", from: both, line: call(`{"v":True}`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "mismatched brackets", from: both, line: call(`{"v":[1}]`), fault: errSyntax, id: "71"},
	{row: "almost JSON", name: "empty", from: both, line: ``, fault: errEmptyLine},
	{row: "almost JSON", name: "a log line", from: both, line: `[info] listening`, fault: errSyntax},
	{row: "almost JSON", name: "a log line that quotes a message", from: FromServer, line: `got {"jsonrpc":"2.0","id":5,"result":{}}`, fault: errSyntax},
	{row: "almost JSON", name: "a log line in JSON", from: FromServer, line: `{"level":"warn","id":5,"msg":"slow"}`, fault: errVersion},

	{row: "split over lines", name: "first part", from: both, line: `{"jsonrpc":"2.0","id":14,`, fault: errCut, id: "14", mute: true},
	{row: "split over lines", name: "first part with method", from: both, line: `{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{`, fault: errCut, id: "14"},
	{row: "split over lines", name: "middle part", from: both, line: `"method":"tools/call","params":`, fault: errNotObject},
	{row: "split over lines", name: "last part", from: both, line: `"name":"x"}}`, fault: errNotObject},
	{row: "split over lines", name: "brace alone", from: both, line: `}`, fault: errSyntax},
	{row: "split over lines", name: "inside a string", from: both, line: `{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":"re`, fault: errCut, id: "14"},
	{row: "split over lines", name: "inside the id", from: both, line: `{"jsonrpc":"2.0","method":"ping","id":14`, fault: errCut},

	{row: "batches", name: "of two", from: both, line: `[{"jsonrpc":"2.0","id":15,"method":"ping"},{"jsonrpc":"2.0","id":16,"method":"ping"}]`, fault: errBatch},
	{row: "batches", name: "of one", from: both, line: `[{"jsonrpc":"2.0","id":15,"method":"ping"}]`, fault: errBatch},
	{row: "batches", name: "empty", from: both, line: `[]`, fault: errBatch},
	{row: "batches", name: "a string", from: both, line: `"ping"`, fault: errNotObject},
	{row: "batches", name: "a number", from: both, line: `12`, fault: errNotObject},
	{row: "batches", name: "null", from: both, line: `null`, fault: errNotObject},

	{row: "version", name: "missing", from: both, line: `{"id":17,"method":"ping"}`, fault: errVersion, id: "17"},
	{row: "version", name: "1.0", from: both, line: `{"jsonrpc":"1.0","id":17,"method":"ping"}`, fault: errVersion, id: "17"},
	{row: "version", name: "a number", from: both, line: `{"jsonrpc":2.0,"id":17,"method":"ping"}`, fault: errVersion, id: "17"},
	{row: "version", name: "null", from: both, line: `{"jsonrpc":null,"id":17,"method":"ping"}`, fault: errVersion, id: "17"},
	{row: "version", name: "blank", from: both, line: `{"jsonrpc":"2.0 ","id":17,"method":"ping"}`, fault: errVersion, id: "17"},
	{row: "version", name: "escaped", from: both, line: `{"jsonrpc":"\u0032.0","id":17,"method":"ping"}`},
	{row: "version", name: "missing in an answer", from: FromServer, line: `{"id":17,"result":{}}`, fault: errVersion, id: "17", mute: true},

	{row: "ids", name: "null", from: both, line: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, fault: errID},
	{row: "ids", name: "bool", from: both, line: `{"jsonrpc":"2.0","id":true,"method":"ping"}`, fault: errID},
	{row: "ids", name: "object", from: both, line: `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, fault: errID},
	{row: "ids", name: "array", from: both, line: `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, fault: errID},
	{row: "ids", name: "fraction", from: both, line: `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`, fault: errID},
	{row: "ids", name: "exponent", from: both, line: `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, fault: errID},
	{row: "ids", name: "negative zero", from: both, line: `{"jsonrpc":"2.0","id":-0,"method":"ping"}`, fault: errID},
	{row: "ids", name: "beyond 64 bits", from: both, line: `{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}`, fault: errID},
	{row: "ids", name: "far beyond 64 bits", from: both, line: `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 5000) + `,"method":"ping"}`, fault: errID},
	{row: "ids", name: "the largest", from: both, line: `{"jsonrpc":"2.0","id":9223372036854775807,"method":"ping"}`},
	{row: "ids", name: "the smallest", from: both, line: `{"jsonrpc":"2.0","id":-9223372036854775808,"method":"ping"}`},
	{row: "ids", name: "zero", from: both, line: `{"jsonrpc":"2.0","id":0,"method":"ping"}`},
	{row: "ids", name: "empty string", from: both, line: `{"jsonrpc":"2.0","id":"","method":"ping"}`},
	{row: "ids", name: "1 KiB", from: both, line: `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1024) + `","method":"ping"}`},
	{row: "ids", name: "1 KiB, escaped", from: both, line: `{"jsonrpc":"2.0","id":"` + strings.Repeat(`\u0078`, 1024) + `","method":"ping"}`},
	{row: "ids", name: "over 1 KiB", from: both, line: `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1025) + `","method":"ping"}`, fault: errID},
	{row: "ids", name: "null in an error", from: FromServer, line: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, fault: errID},

	{row: "ids", name: "with a raw control", from: both, line: "{\"jsonrpc\":\"2.0\",\"id\":\"a\x00\",\"method\":\"ping\"}", fault: errSyntax},
	{row: "ids", name: "two strings", from: both, line: `{"jsonrpc":"2.0","id":"a" "b","method":"ping"}`, fault: errSyntax},
	{row: "ids", name: "with a lone surrogate", from: FromAgent, line: `{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, fault: errSurrogate},

	{row: "numbers in arguments", name: "of any size", from: both, line: call(`{"v":[1e400,-0.0,123456789012345678901234567890,0.1000000000000000055511151231257827,1E+2]}`)},

	{row: "methods", name: "a number", from: both, line: `{"jsonrpc":"2.0","id":18,"method":7}`, fault: errMethod, id: "18"},
	{row: "methods", name: "null", from: both, line: `{"jsonrpc":"2.0","id":18,"method":null}`, fault: errMethod, id: "18"},
	{row: "methods", name: "an object", from: both, line: `{"jsonrpc":"2.0","id":18,"method":{"a":"tools/call"}}`, fault: errMethod, id: "18"},
	{row: "methods", name: "empty", from: both, line: `{"jsonrpc":"2.0","id":18,"method":""}`, fault: errMethod, id: "18"},
	{row: "methods", name: "blank after", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"tools/call "}`, fault: errMethod, id: "18"},
	{row: "methods", name: "control", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"tools\u0000/call"}`, fault: errMethod, id: "18"},
	{row: "methods", name: "delete", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"tools/call\u007f"}`, fault: errMethod, id: "18"},
	{row: "methods", name: "Cyrillic", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"tоols/call"}`, fault: errMethod, id: "18"},
	{row: "methods", name: "too long", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"` + strings.Repeat("m", 1025) + `"}`, fault: errMethod, id: "18"},
	{row: "methods", name: "escaped", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"\u0074ools\/call"}`},
	{row: "methods", name: "of a vendor", from: both, line: `{"jsonrpc":"2.0","id":18,"method":"acme/~do.it!"}`},

	{row: "params", name: "an array", from: both, line: `{"jsonrpc":"2.0","id":19,"method":"tools/call","params":["x"]}`, fault: errParams, id: "19"},
	{row: "params", name: "null", from: both, line: `{"jsonrpc":"2.0","id":19,"method":"tools/call","params":null}`, fault: errParams, id: "19"},
	{row: "params", name: "a string", from: both, line: `{"jsonrpc":"2.0","id":19,"method":"tools/call","params":"x"}`, fault: errParams, id: "19"},
	{row: "params", name: "of a notification", from: both, line: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`, fault: errParams, mute: true},
	{row: "params", name: "empty", from: both, line: `{"jsonrpc":"2.0","id":19,"method":"tools/list","params":{}}`},
	{row: "params", name: "absent", from: both, line: `{"jsonrpc":"2.0","id":19,"method":"tools/list"}`},

	{row: "members together", name: "method and result", from: FromAgent, line: `{"jsonrpc":"2.0","id":20,"method":"ping","result":{}}`, fault: errMixed, id: "20"},
	{row: "members together", name: "method and result", from: FromServer, line: `{"jsonrpc":"2.0","id":20,"method":"ping","result":{}}`, fault: errMixed, id: "20", mute: true},
	{row: "members together", name: "method and error", from: FromAgent, line: `{"jsonrpc":"2.0","id":20,"method":"ping","error":{"code":1,"message":"x"}}`, fault: errMixed, id: "20"},
	{row: "members together", name: "method and error", from: FromServer, line: `{"jsonrpc":"2.0","id":20,"method":"ping","error":{"code":1,"message":"x"}}`, fault: errMixed, id: "20", mute: true},
	{row: "members together", name: "params and result", from: both, line: `{"jsonrpc":"2.0","id":20,"params":{},"result":{}}`, fault: errMixed, id: "20", mute: true},
	{row: "members together", name: "result and error", from: both, line: `{"jsonrpc":"2.0","id":20,"result":{},"error":{"code":1,"message":"x"}}`, fault: errBoth, id: "20", mute: true},
	{row: "members together", name: "id alone", from: both, line: `{"jsonrpc":"2.0","id":20}`, fault: errNeither, id: "20", mute: true},
	{row: "members together", name: "id and params", from: both, line: `{"jsonrpc":"2.0","id":20,"params":{}}`, fault: errNeither, id: "20"},
	{row: "members together", name: "result without id", from: both, line: `{"jsonrpc":"2.0","result":{}}`, fault: errResultNoID, mute: true},
	{row: "members together", name: "none (EC-STDIO-017)", from: both, line: `{"jsonrpc":"2.0","note":"x"}`, fault: errShapeless, mute: true},
	{row: "members together", name: "version alone", from: both, line: `{"jsonrpc":"2.0"}`, fault: errShapeless, mute: true},
	{row: "members together", name: "nothing at all (EC-STDIO-016)", from: both, line: `{}`, fault: errVersion, mute: true},

	{row: "an error without an id", name: "from the server", from: FromServer, line: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`},
	{row: "an error without an id", name: "from the agent", from: FromAgent, line: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`, fault: errErrorNoID, mute: true},
	{row: "the shape of an error", name: "good", from: both, line: `{"jsonrpc":"2.0","id":21,"error":{"code":-32601,"message":"","data":{"code":"x"}}}`},
	{row: "the shape of an error", name: "a string", from: both, line: `{"jsonrpc":"2.0","id":21,"error":"no"}`, fault: errErrorShape, id: "21", mute: true},
	{row: "the shape of an error", name: "null", from: both, line: `{"jsonrpc":"2.0","id":21,"error":null}`, fault: errErrorShape, id: "21", mute: true},
	{row: "the shape of an error", name: "code as text", from: both, line: `{"jsonrpc":"2.0","id":21,"error":{"code":"-1","message":"x"}}`, fault: errErrorShape, id: "21", mute: true},
	{row: "the shape of an error", name: "fraction of a code", from: both, line: `{"jsonrpc":"2.0","id":21,"error":{"code":-1.5,"message":"x"}}`, fault: errErrorShape, id: "21", mute: true},
	{row: "the shape of an error", name: "no message", from: both, line: `{"jsonrpc":"2.0","id":21,"error":{"code":-1}}`, fault: errErrorShape, id: "21", mute: true},
	{row: "the shape of an error", name: "message of null", from: both, line: `{"jsonrpc":"2.0","id":21,"error":{"code":-1,"message":null}}`, fault: errErrorShape, id: "21", mute: true},

	{row: "depth", name: "1,000", from: both, line: call(`{"v":` + arrow(997) + `}`)},
	{row: "depth", name: "1,001", from: both, line: call(`{"v":` + arrow(998) + `}`), fault: errDepth, id: "71"},
	{row: "depth", name: "1,001 objects", from: both, line: call(strings.Repeat(`{"x":`, 999) + `0` + strings.Repeat(`}`, 999)), fault: errDepth, id: "71"},
	{row: "depth", name: "half a million", from: both, line: call(`{"v":` + arrow(500_000) + `}`), fault: errDepth, id: "71"},
	{row: "depth", name: "half a million, open", from: both, line: call(`{"v":` + strings.Repeat("[", 500_000)), fault: errDepth, id: "71"},
	{row: "depth", name: "outside params", from: both, line: `{"jsonrpc":"2.0","id":71,"method":"ping","x":` + arrow(2000) + `}`, fault: errDepth, id: "71"},
	{row: "depth", name: "many brackets that are not deep", from: both, line: call(`{"v":[` + strings.Repeat(`[{}],`, 5000) + `"[[[["]}`)},

	{row: "members of an object", name: "as many as may be", from: both, line: call(members(MaxMembers))},
	{row: "members of an object", name: "one more", from: both, line: call(members(MaxMembers + 1)), fault: errMembers, id: "71"},
	{row: "members of an object", name: "one more in params", from: both, line: `{"jsonrpc":"2.0","id":71,"method":"ping","params":` + members(MaxMembers+1) + `}`, fault: errMembers, id: "71"},
	{row: "members of an object", name: "strings that are not members", from: both, line: call(`{"v":[` + strings.Repeat(`"",`, 3*MaxMembers) + `""]}`)},

	{row: "over 10 MB", name: "half as long (EC-STDIO-032)", from: both, line: long(5 << 20)},
	{row: "over 10 MB", name: "just below", from: both, line: long(MaxMessage)},
	{row: "over 10 MB", name: "just above", from: both, line: long(MaxMessage + 1), fault: errTooLong, id: "71"},

	{row: "arguments", name: "an array", from: both, line: call(`[1]`), fault: errArguments, id: "71"},
	{row: "arguments", name: "null", from: both, line: call(`null`)},
	{row: "arguments", name: "a string", from: both, line: call(`"{}"`), fault: errArguments, id: "71"},
	{row: "arguments", name: "empty", from: both, line: call(`{}`)},
	{row: "arguments", name: "a version that is no string", from: FromAgent, line: `{"jsonrpc":"2.0","id":71,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":20260728}}}`, fault: errMetaVersion, id: "71"},

	{row: "other framings", name: "HTTP/2", from: both, line: `PRI * HTTP/2.0`, fault: errSyntax},
	{row: "other framings", name: "a header", from: both, line: `Content-Length: 120`, fault: errSyntax},
}

// long returns a call of n bytes.
func long(n int) string {
	empty := call(`{"v":""}`)
	return call(`{"v":"` + strings.Repeat("y", n-len(empty)) + `"}`)
}

func TestRead(t *testing.T) {
	for _, c := range readCases {
		sides := []Side{c.from}
		if c.from == both {
			sides = []Side{FromAgent, FromServer}
		}
		for _, from := range sides {
			t.Run(strings.Join([]string{c.row, c.name, [2]string{"agent", "server"}[from]}, "/"), func(t *testing.T) {
				before := strings.Clone(c.line)
				var e Envelope
				err := Read([]byte(c.line), from, &e)
				checkRead(t, c, err)
				if c.line != before {
					t.Error("the line was changed")
				}
			})
		}
	}
}

func checkRead(t *testing.T, c readCase, err error) {
	t.Helper()
	if c.fault == nil {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if refusal.Reason != c.fault.Reason || refusal.Code != c.fault.Code || refusal.Shapeless != c.fault.Shapeless {
		t.Errorf("refused with %q (%d), want %q (%d)", refusal.Reason, refusal.Code, c.fault.Reason, c.fault.Code)
	}
	if got := string(refusal.ID.Of([]byte(c.line))); got != c.id {
		t.Errorf("id %q, want %q", got, c.id)
	}
	if want := c.id != "" && !c.mute; refusal.Answer != want {
		t.Errorf("answer is %v, want %v", refusal.Answer, want)
	}
}

func TestEnvelope(t *testing.T) {
	const version = `"io.modelcontextprotocol/protocolVersion"`
	tests := []struct {
		line string
		want map[string]string // by field
	}{
		{`{"jsonrpc":"2.0","id":"a\u0041","method":"tools\/call","params":{"arguments" : {"x":[1, 2]},"name":"r\u0065ad","_meta":{"progressToken":7}}}`,
			map[string]string{"kind": "request", "method": "tools/call", "id": `"a\u0041"`, "name": `"r\u0065ad"`, "arguments": `{"x":[1, 2]}`, "token": "7",
				"params": `{"arguments" : {"x":[1, 2]},"name":"r\u0065ad","_meta":{"progressToken":7}}`, "meta": `{"progressToken":7}`}},
		{`{"method":"resources/read","params":{"uri" : "file:///x","_meta":{` + version + `:"2026-07-28","progressToken":"t"},"requestState":"s","inputResponses":{"a":{}}},"id":-4,"jsonrpc":"2.0"}`,
			map[string]string{"kind": "request", "method": "resources/read", "id": "-4", "uri": `"file:///x"`, "token": `"t"`, "version": `"2026-07-28"`,
				"modern": "true", "meta": `{` + version + `:"2026-07-28","progressToken":"t"}`, "state": `"s"`, "responses": `{"a":{}}`}},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"12","reason":"x"}}`,
			map[string]string{"kind": "notification", "method": "notifications/cancelled", "requestId": `"12"`}},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n\u0061me":"x","arguments":null,"uri":"y"}}`,
			map[string]string{"kind": "request", "method": "tools/call", "id": "1", "name": `"x"`, "uri": `"y"`, "bare": "true"}},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"other":1,"name":"x"}}`,
			map[string]string{"kind": "request", "method": "tools/call", "id": "1", "name": `"x"`}},
		{`{"jsonrpc":"2.0","id":5,"result":{"content":[],"isError":true,"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}`,
			map[string]string{"kind": "result", "id": "5", "isError": "true", "type": `"input_required"`, "requests": `{"a":{"method":"roots/list"}}`,
				"result": `{"content":[],"isError":true,"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`}},
		{`{"jsonrpc":"2.0","id":5,"result":"done"}`, map[string]string{"kind": "result", "id": "5", "result": `"done"`}},
		{`{"jsonrpc":"2.0","id":5,"error":{"message":"no","code":-32042,"data":[1]}}`,
			map[string]string{"kind": "error", "id": "5", "code": "-32042", "error": `{"message":"no","code":-32042,"data":[1]}`}},
		{`{"jsonrpc":"2.0","id":6,"method":"elicitation/create","params":{"mode":"url","url":"https://x"}}`,
			map[string]string{"kind": "request", "method": "elicitation/create", "id": "6", "mode": `"url"`}},
		{`{"jsonrpc":"2.0","id":6,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"task":{"ttl":1},"taskId":"t-1","notifications":{}}}`,
			map[string]string{"kind": "request", "method": "completion/complete", "id": "6", "ref": `{"type":"ref/prompt","name":"p"}`, "task": `{"ttl":1}`, "taskId": `"t-1"`, "notifications": `{}`}},
		{`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"inputRequests":{},"taskId":"t"}}`,
			map[string]string{"kind": "notification", "method": "notifications/tasks", "requests": `{}`, "taskId": `"t"`}},
		{`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"q"}, "taskId" : "r"}}`,
			map[string]string{"kind": "result", "id": "1", "created": `{"taskId":"q"}`, "createdId": `"r"`}},
	}
	for _, test := range tests {
		line := []byte(test.line)
		e := Envelope{Method: "stale", Modern: true, Name: Span{1, 2}}
		if err := Read(line, FromServer, &e); err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		got := map[string]string{
			"kind": e.Kind.String(), "method": e.Method, "modern": strconv.FormatBool(e.Modern), "isError": strconv.FormatBool(e.IsError),
			"code": strconv.FormatInt(e.Code, 10), "bare": strconv.FormatBool(e.Bare),
		}
		for name, span := range map[string]Span{
			"id": e.ID, "name": e.Name, "uri": e.URI, "arguments": e.Arguments, "meta": e.Meta, "token": e.ProgressToken,
			"version": e.Version, "requestId": e.RequestID, "task": e.Task, "taskId": e.TaskID, "state": e.RequestState,
			"responses": e.InputResponses, "mode": e.Mode, "ref": e.Ref, "notifications": e.Notifications, "type": e.ResultType,
			"requests": e.InputRequests, "created": e.CreatedTask, "createdId": e.CreatedTaskID, "error": e.Error,
		} {
			got[name] = string(span.Of(line))
		}
		for name, span := range map[string]Span{"params": e.Params, "result": e.Result} {
			if _, asked := test.want[name]; asked {
				got[name] = string(span.Of(line))
			}
		}
		for name, g := range got {
			if want := test.want[name]; g != want && !(want == "" && (g == "false" || g == "0")) {
				t.Errorf("%s: %s is %q, want %q", test.line, name, g, want)
			}
		}
	}
}

//gotest:plain pools drop items at random under the race detector
func TestReadAllocatesNothing(t *testing.T) {
	if programs.UnderRace() {
		t.Skip("pools drop items at random under the race detector")
	}
	lines := []string{
		call(`{"path":"a","n":[1,2,{"x":null}]}`),
		call(`{"path":"ünï\u0041"}`),
		`{"jsonrpc":"2.0","id":"abc","method":"resources/read","params":{"uri":"file:///x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("word ", 800) + `"}]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
	}
	for _, text := range lines {
		line := []byte(text)
		for _, from := range []Side{FromAgent, FromServer} {
			n := testing.AllocsPerRun(200, func() {
				var e Envelope
				if err := Read(line, from, &e); err != nil {
					t.Fatal(err)
				}
			})
			if n > 0 {
				t.Errorf("%.60s: %v allocations", text, n)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for name, text := range map[string]string{
		"1KB":        call(`{"path":"` + strings.Repeat("p", 900) + `","n":[1,2,3]}`),
		"8MB/base64": `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"blob","data":"` + strings.Repeat("QUJD", 2<<20) + `"}]}}`,
		"tokens":     `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":[` + strings.Repeat(`{"a":1,"b":[true,null,"x"]},`, 1<<14) + `0]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			line := bytes.Clone([]byte(text))
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var e Envelope
			for b.Loop() {
				if err := Read(line, FromServer, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
