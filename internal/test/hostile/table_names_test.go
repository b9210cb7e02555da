package hostile

import "fmt"

// nameCases are members that come twice, and members that some readers take for
// others. Go's decoder folds case, Unicode included; others trim; some keep the
// first of two, some the last.
func nameCases() []*Case {
	const n = "names"
	safe := `"params":{"name":"echo"}`
	cases := []*Case{
		agent(n, "method-twice", `{"jsonrpc":"2.0","id":401,"method":"ping","method":"tools/call","params":{"name":"mark-nam1"}}`, refused("401", -32700, -32600)),
		agent(n, "id-twice", `{"jsonrpc":"2.0","id":401,"id":402,"method":"tools/call","params":{"name":"mark-nam2"}}`, silent, note("whom should it be told?")),
		agent(n, "id-twice-the-same", `{"jsonrpc":"2.0","id":401,"method":"tools/call","params":{"name":"mark-nam3"},"id":401}`, dropped),
		agent(n, "params-twice", `{"jsonrpc":"2.0","id":401,"method":"tools/call",`+safe+`,"params":{"name":"mark-nam4"}}`, refused("401", -32700, -32600)),
		agent(n, "version-twice", `{"jsonrpc":"2.0","jsonrpc":"2.0","id":401,"method":"tools/call","params":{"name":"mark-nam5"}}`, refused("401", -32700, -32600)),
		agent(n, "name-twice-escaped", request("401", "tools/call", `{"name":"echo","\u006eam\u0065":"mark-nam6"}`), refused("401", -32700, -32600)),
		agent(n, "arguments-twice", request("401", "tools/call", `{"name":"echo","arguments":{},"arguments":{"v":"mark-nam7"}}`), refused("401", -32700, -32600)),
		agent(n, "argument-twice", call("401", `"v":1,"w":2,"v":"mark-nam8"`), refused("401", -32700, -32600)),
		agent(n, "argument-twice-deep", call("401", `"v":[{"a":[{"b":1,"\u0062":"mark-nam9"}]}]`), refused("401", -32700, -32600)),
		agent(n, "empty-name-twice", call("401", `"":1,"":"mark-nam10"`), refused("401", -32700, -32600)),
		agent(n, "meta-twice", request("401", "tools/call", `{"name":"mark-nam11","_meta":{},"_meta":{"progressToken":1}}`), refused("401", -32700, -32600)),
		agent(n, "token-twice", request("401", "tools/call", `{"name":"mark-nam12","_meta":{"progressToken":1,"progressToken":2}}`), refused("401", -32700, -32600)),
		agent(n, "uri-twice", request("401", "resources/read", `{"uri":"file:///a","uri":"file:///mark-nam13"}`), refused("401", -32700, -32600)),
		agent(n, "unknown-twice", `{"jsonrpc":"2.0","id":401,"method":"tools/call","x":1,"params":{"name":"mark-nam14"},"x":2}`, refused("401", -32700, -32600)),
		agent(n, "result-beside-an-answer", `{"jsonrpc":"2.0","id":"q","result":{"roots":[]},"result":{"v":"mark-nam15"}}`, served(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`), dropped),
		server(n, "result-twice", `{"jsonrpc":"2.0","id":401,"result":{"content":[]},"result":{"v":"mark-nam16"}}`, asked(call("401", ``)), lost("401")),
		server(n, "content-twice", `{"jsonrpc":"2.0","id":401,"result":{"content":[],"content":[{"type":"text","text":"mark-nam17"}]}}`, asked(call("401", ``)), lost("401")),
		server(n, "folded-result", `{"jsonrpc":"2.0","id":401,"result":{"content":[]},"RESULT":{"v":"mark-nam18"}}`, asked(call("401", ``)), lost("401")),
		server(n, "folded-error", `{"jsonrpc":"2.0","id":401,"result":{"v":"mark-nam19"},"Error":{"code":1,"message":"x"}}`, asked(call("401", ``)), lost("401")),
		server(n, "folded-method", `{"jsonrpc":"2.0","id":401,"result":{"v":"mark-nam20"},"Method":"sampling/createMessage"}`, asked(call("401", ``)), lost("401")),
		server(n, "long-s-in-result", `{"jsonrpc":"2.0","id":401,"result":{},"reſult":{"v":"mark-nam21"}}`, asked(call("401", ``)), lost("401")),
		server(n, "folded-name-of-a-notification", `{"jsonrpc":"2.0","method":"notifications/message","Params":{"level":"info","data":"mark-nam22"}}`, dropped),
		server(n, "two-tokens", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"mark-nam23"}}]}}`, dropped),
	}
	// A twin beside the name itself, and alone: a reader that folds would see
	// a message where this one sees another, or none.
	for i, twin := range []string{`JSONRPC`, `Id`, `ID`, `mEthod`, `PARAMS`, `Result`, `errOr`, `paramſ`, `method\u0000`, ` id`, `params `, `method\t`, `\u200bmethod`} {
		cases = append(cases, agent(n, fmt.Sprintf("twin-%d", i),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":401,"method":"tools/call","params":{"name":"mark-twin%d"},"%s":"2.0"}`, i, twin), dropped, note("beside it: "+twin)))
	}
	for i, twin := range []string{`Name`, `NAME`, `nam\u0065 `, `name\u0000`, `Arguments`, `argumentſ`, `Uri`, `_META`, `_meta\u0000`, `tas\u212a`} {
		cases = append(cases, agent(n, fmt.Sprintf("params-twin-%d", i),
			request("401", "tools/call", fmt.Sprintf(`{"name":"mark-pt%d","%s":{}}`, i, twin)), refused("401", -32700, -32600, -32602), note("beside it: "+twin)))
	}
	return append(cases,
		agent(n, "only-a-twin-of-name", request("401", "tools/call", `{"Name":"mark-nam24"}`), refused("401")),
		agent(n, "only-a-twin-of-method", `{"jsonrpc":"2.0","id":401,"Method":"tools/call","params":{"name":"mark-nam25"}}`, dropped),
		agent(n, "only-a-twin-of-version", `{"JsonRpc":"2.0","id":401,"method":"tools/call","params":{"name":"mark-nam26"}}`, dropped),
		agent(n, "folded-uri", request("401", "resources/read", `{"uri":"file:///a","URI":"file:///mark-nam27"}`), refused("401", -32700, -32600, -32602)),
	)
}
