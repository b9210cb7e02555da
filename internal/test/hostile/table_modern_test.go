package hostile

import "fmt"

// modernCases are the rules of MCP 2026-07-28: no handshake, versions in every
// request, no requests from the server and no answers from the agent.
func modernCases() []*Case {
	const m = "modern"
	result := func(id, members string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, id, members)
	}
	open := asked(mcall("951", ``))
	cases := []*Case{
		agent(m, "call", mcall("951", `"v":1.0`), modern, identical),
		agent(m, "meta-last", request("951", "tools/call", `{"name":"echo","arguments":{},`+meta+`}`), modern, identical),
		agent(m, "reads", request("951", "resources/read", `{`+meta+`,"uri":"file:///a"}`)+"\n"+request("952", "prompts/get", `{`+meta+`,"name":"p"}`), modern, identical),
		agent(m, "listens", request("951", "subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a","file:///b"]}}`), modern, identical),
		agent(m, "listens-to-nothing-named", request("951", "subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true}}`), modern, identical),
		agent(m, "listens-to-a-control", request("951", "subscriptions/listen", `{`+meta+`,"notifications":{"resourceSubscriptions":["file:///a","file:///\u0007mark-mod1"]}}`), modern, refused("951", -32602)),
		agent(m, "listens-to-a-number", request("951", "subscriptions/listen", `{`+meta+`,"notifications":{"resourceSubscriptions":[1],"v":"mark-mod2"}}`), modern, refused("951", -32602)),
		agent(m, "discovers-again", request("951", "server/discover", `{`+meta+`}`), modern, identical),
		agent(m, "retries", request("951", "tools/call", `{`+meta+`,"name":"echo","requestState":"opaque \u00e9","inputResponses":{"a":{"action":"accept","content":{"k":"v"}}}}`), modern, identical),
		agent(m, "cancels", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":951}}`, modern, open, identical),
		agent(m, "tasks", request("951", "tasks/get", `{`+meta+`,"taskId":"t"}`)+"\n"+request("952", "tasks/update", `{`+meta+`,"taskId":"t","inputResponses":{}}`)+"\n"+request("953", "tasks/cancel", `{`+meta+`,"taskId":"t"}`), modern, identical),
		agent(m, "ping", request("951", "ping", `{`+meta+`,"v":"mark-mod3"}`), modern, refused("951", -32601), note("not of this era")),
		agent(m, "subscribe", request("951", "resources/subscribe", `{`+meta+`,"uri":"file:///mark-mod4"}`), modern, refused("951", -32601)),
		agent(m, "set-level", request("951", "logging/setLevel", `{`+meta+`,"level":"debug","v":"mark-mod5"}`), modern, refused("951", -32601)),
		agent(m, "initialize", request("951", "initialize", `{`+meta+`,"protocolVersion":"2025-11-25","v":"mark-mod6"}`), modern, refused("951", -32601)),
		agent(m, "answers", `{"jsonrpc":"2.0","id":"q","result":{"roots":[],"v":"mark-mod7"}}`, modern, silent),
		agent(m, "answers-with-an-error", `{"jsonrpc":"2.0","id":"q","error":{"code":1,"message":"mark-mod8"}}`, modern, silent),
		agent(m, "version-number", request("951", "tools/call", `{"_meta":{"io.modelcontextprotocol/protocolVersion":20260728},"name":"mark-mod9"}`), modern, refused("951", -32602)),
		agent(m, "version-twice", request("951", "tools/call", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/protocolVersion":"x"},"name":"mark-mod10"}`), modern, refused("951", -32700, -32600)),
		agent(m, "version-folded", request("951", "tools/call", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","IO.modelcontextprotocol/protocolVersion":"x"},"name":"mark-mod11"}`), modern, refused("951")),
		agent(m, "unknown-revision", request("951", "tools/call", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"},"name":"mark-rev1"}`), modern, refused("951", -32022), note("the client falls back to what is supported")),
		agent(m, "unknown-revision-of-a-list", request("951", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"},"cursor":"mark-rev2"}`), modern, refused("951", -32022)),
		agent(m, "unknown-revision-in-discover", request("951", "server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"draft"},"v":"mark-rev3"}`), modern, refused("951", -32022)),
		agent(m, "unknown-revision-in-development", request("951", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`), modern, development, identical),
		agent(m, "call-without-an-id", `{"jsonrpc":"2.0","method":"tools/call","params":{`+meta+`,"name":"mark-mod12"}}`, modern, silent),
		agent(m, "listen-without-an-id", `{"jsonrpc":"2.0","method":"subscriptions/listen","params":{`+meta+`,"v":"mark-mod13"}}`, modern, silent),
		agent(m, "unknown-method", request("951", "acme/run", `{`+meta+`,"v":"mark-mod14"}`), modern, refused("951", -32601)),
		agent(m, "batch", "["+mcall("951", `"v":"mark-mod15"`)+"]", modern, dropped, note("EC-STDIO-035")),
		agent(m, "open-already", mcall("951", `"v":"mark-mod16"`), modern, open, silent, then("server", result("951", `"resultType":"complete","content":[]`))),

		server(m, "result", result("951", `"resultType":"complete","content":[],"structuredContent":{"x":1.0}`), modern, open, identical),
		server(m, "result-without-its-type", result("951", `"content":[]`), modern, open, identical),
		server(m, "error", `{"jsonrpc":"2.0","id":951,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"]}}}`, modern, open, identical),
		server(m, "input-required", result("951", `"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}},"b":{"method":"roots/list"}},"requestState":"s"`), modern, open, identical),
		server(m, "unknown-result-type", result("951", `"resultType":"acme","content":[{"type":"text","text":"mark-mod17"}]`), modern, open, dropped),
		server(m, "result-type-number", result("951", `"resultType":1,"content":[{"type":"text","text":"mark-mod18"}]`), modern, open, dropped),
		server(m, "result-type-folded", result("951", `"resultType":"complete","resulttype":"input_required","inputRequests":{"v":"mark-mod19"}`), modern, open, lost("951")),
		server(m, "input-requests-folded", result("951", `"resultType":"input_required","inputRequests":{},"INPUTREQUESTS":{"v":"mark-mod20"}`), modern, open, lost("951")),
		server(m, "input-requests-of-a-list", result("951", `"resultType":"input_required","inputRequests":["mark-mod21"]`), modern, open, dropped),
		server(m, "asks-what-no-server-may", result("951", `"resultType":"input_required","inputRequests":{"a":{"method":"tools/call","params":{"name":"mark-mod22"}}}`), modern, open, dropped),
		server(m, "unasked", result("952", `"resultType":"complete","v":"mark-mod23"`), modern, dropped),
		server(m, "twice", result("951", `"resultType":"complete","v":"mark-mod24"`), modern, open, served(result("951", `"resultType":"complete","content":[]`)), dropped),
		server(m, "acknowledged", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"x"},"notifications":{"toolsListChanged":true}}}`, modern, identical),
		server(m, "changed", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"x"}}}`, modern, identical),
		server(m, "progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`, modern, open, identical),
		server(m, "ends-a-listen", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":951}}`, modern, asked(request("951", "subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true}}`)), identical),
		server(m, "unknown-notification", `{"jsonrpc":"2.0","method":"notifications/acme","params":{"v":"mark-mod25"}}`, modern, dropped),
		server(m, "dies", `{"jsonrpc":"2.0","id":951,"result":{"resultType":"complete","v":"mark-mod26`, modern, open, dies, lost("951"), note("EC-STDIO-010")),
		server(m, "list-with-hints", `{"jsonrpc":"2.0","id":951,"result":{"resultType":"complete","ttlMs":300000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{}}]}}`, modern, asked(request("951", "tools/list", `{`+meta+`}`)), identical),
	}
	// What is wrong with an answer to a call is wrong with an answer to anything.
	for _, asked := range []struct{ name, method, params string }{
		{"a-list", "tools/list", ``}, {"discover", "server/discover", ``}, {"a-completion", "completion/complete", `,"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}`},
		{"an-update", "tasks/update", `,"taskId":"t"`}, {"a-skill", "skills/get", `,"uri":"skill://a"`}, {"a-task", "tasks/get", `,"taskId":"t"`},
	} {
		open := before("agent", []string{request("955", asked.method, `{`+meta+asked.params+`}`)})
		cases = append(cases,
			server(m, "unknown-type-of-"+asked.name, result("955", `"resultType":"acme","v":"mark-any1"`), modern, open, lost("955")),
			server(m, "no-servers-ask-in-"+asked.name, result("955", `"resultType":"input_required","inputRequests":{"a":{"method":"tools/call","params":{"name":"mark-any2"}}}`), modern, open, lost("955")))
	}
	cases = append(cases,
		server(m, "list-that-asks", result("955", `"resultType":"input_required","inputRequests":{},"tools":[{"name":"mark-any3"}]`), modern,
			before("agent", []string{request("955", "tools/list", `{`+meta+`}`)}), lost("955")),
		server(m, "asks-within-a-task", result("955", `"resultType":"complete","status":"completed","result":{"resultType":"input_required","v":"mark-any4"}`), modern,
			before("agent", []string{request("955", "tasks/get", `{`+meta+`,"taskId":"t"}`)}), lost("955")))
	for i, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list", "ping", "tasks/get", "tools/call", "acme/ask"} {
		cases = append(cases, server(m, fmt.Sprintf("asks-%d", i),
			request("954", method, fmt.Sprintf(`{"v":"mark-mas%d","name":"n"}`, i)), modern, silent, note(method+": a modern server sends no requests")))
	}
	return cases
}

// longCases have bytes too many to be written out. A line may have 10 MiB.
func longCases() []*Case {
	const limit = 10 << 20
	head := `{"jsonrpc":"2.0","id":981,"method":"tools/call","params":{"name":"echo","arguments":{"v":"`
	return []*Case{
		agent("good.agent", "longest", "", parts(head, "y", limit-len(head)-len(`"}}}`), `"}}}`+"\n"), identical, within(120), note("exactly 10 MiB")),
		agent("framing", "one-byte-too-long", "", parts(head, "y", limit+1-len(head)-len(`"}}}`), `"}}}`+"\n"), refused("981"), within(90), note("EC-STDIO-014")),
		agent("framing", "too-long-id-last", "", parts(`{"method":"tools/call","params":{"name":"echo","arguments":{"v":"`, "0123456789", 1100000, `"}},"jsonrpc":"2.0","id":981}`+"\n"), refused("981"), within(90), note("EC-STDIO-014")),
		agent("framing", "too-long-two-ids", "", parts(`{"id":981,"method":"tools/call","params":{"name":"echo","arguments":{"v":"`, "0123456789", 1100000, `"}},"jsonrpc":"2.0","id":982}`+"\n"), silent, within(90), note("EC-STDIO-014: whom should it be told?")),
		agent("framing", "too-long-notification", "", parts(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"`, "0123456789", 1100000, `"}}`+"\n"), silent, within(90), note("EC-STDIO-014")),
		server("good.server", "longest", "", parts(`{"jsonrpc":"2.0","id":981,"result":{"v":"`, "y", limit-len(`{"jsonrpc":"2.0","id":981,"result":{"v":"`)-len(`"}}`), `"}}`+"\n"), asked(call("981", ``)), identical, within(120), note("exactly 10 MiB")),
		server("framing.server", "too-long", "", parts(`{"jsonrpc":"2.0","id":981,"result":{"v":"`, "0123456789", 1100000, `"}}`+"\n"), asked(call("981", ``)), lost("981"), within(90), note("EC-STDIO-014: the agent must not be left to time out")),
		server("framing.server", "too-long-id-last", "", parts(`{"jsonrpc":"2.0","result":{"v":"`, "0123456789", 1100000, `"},"id":981}`+"\n"), asked(call("981", ``)), lost("981"), within(90), note("EC-STDIO-014")),
		server("framing.server", "no-line-end-at-all", "", parts("", "0123456789", 3000000, "\n"), dropped, within(90), note("EC-STDIO-014: 30 MB")),
	}
}
