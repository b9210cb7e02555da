package hostile

// idCases are about who may answer what: ids that nobody asked with, that are
// open, that are answered already, or that only look alike.
func idCases() []*Case {
	const i, s = "ids.agent", "spoof"
	const roots = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
	return []*Case{
		agent(i, "open-already", call("601", `"v":"mark-ids1"`), asked(call("601", ``)), silent, then("server", answer("601", "of the first")), note("an error would be read as the answer to the first")),
		agent(i, "open-already-spelled-otherwise", call(`"\u0061"`, `"v":"mark-ids2"`), asked(call(`"a"`, ``)), silent, then("server", answer(`"a"`, "of the first"))),
		agent(i, "open-already-another-method", `{"jsonrpc":"2.0","id":601,"method":"ping","params":{"v":"mark-ids3"}}`, asked(call("601", ``)), silent, then("server", answer("601", "of the first"))),
		agent(i, "bad-line-with-an-open-id", `{"jsonrpc":"2.0","id":601,"method":"tools/call","params":["mark-ids4"]}`, asked(call("601", ``)), silent, then("server", answer("601", "of the first"))),
		agent(i, "unclear-name-with-an-open-id", request("601", "tools/call", `{"name":"mark-ids5\u200b"}`), asked(call("601", ``)), silent, then("server", answer("601", "of the first"))),
		agent(i, "free-again", call("601", `"v":"again"`), asked(call("601", ``)), served(answer("601", "done")), identical),
		agent(i, "answer-to-nothing", `{"jsonrpc":"2.0","id":"nobody","result":{"v":"mark-ids6"}}`, silent),
		agent(i, "error-to-nothing", `{"jsonrpc":"2.0","id":601,"error":{"code":1,"message":"mark-ids7"}}`, silent),
		agent(i, "answer-of-another-type", `{"jsonrpc":"2.0","id":"5","result":{"roots":[],"v":"mark-ids8"}}`, served(`{"jsonrpc":"2.0","id":5,"method":"roots/list"}`), silent),
		agent(i, "answer-twice", `{"jsonrpc":"2.0","id":"q","result":{"roots":[],"v":"mark-ids9"}}`, served(roots), asked(`{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`), silent),
		agent(i, "answer-to-its-own-request", `{"jsonrpc":"2.0","id":601,"result":{"v":"mark-ids10"}}`, asked(call("601", ``)), silent, then("server", answer("601", "real"))),
		agent(i, "answer-without-blank-in-the-id", `{"jsonrpc":"2.0","id":"q ","result":{"roots":[],"v":"mark-ids11"}}`, served(roots), silent),
		agent(i, "cancels-what-nobody-asked", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never"}}`, survives),

		server(s, "unasked", answer("602", "mark-spf1"), dropped),
		server(s, "unasked-error", `{"jsonrpc":"2.0","id":"602","error":{"code":1,"message":"mark-spf2"}}`, dropped),
		server(s, "other-type", answer(`"602"`, "mark-spf3"), asked(call("602", ``)), dropped, then("server", answer("602", "real"))),
		server(s, "other-type-the-other-way", answer("602", "mark-spf4"), asked(call(`"602"`, ``)), dropped, then("server", answer(`"602"`, "real"))),
		server(s, "twice", answer("602", "mark-spf5"), asked(call("602", ``)), served(answer("602", "first")), dropped),
		server(s, "twice-in-one-write", answer("602", "first")+"\n"+answer("602", "mark-spf6"), asked(call("602", ``)), onlyLines(0)),
		server(s, "error-after-a-result", `{"jsonrpc":"2.0","id":602,"error":{"code":1,"message":"mark-spf7"}}`, asked(call("602", ``)), served(answer("602", "first")), dropped),
		server(s, "same-number-written-otherwise", answer("602.0", "mark-spf9"), asked(call("602", ``)), dropped),
		server(s, "same-number-with-an-exponent", answer("6.02e2", "mark-spf10"), asked(call("602", ``)), dropped),
		server(s, "neighbour-past-doubles", answer("9007199254740992", "mark-spf11"), asked(call("9007199254740993", ``)), dropped, note("the same double")),
		server(s, "id-with-a-blank", answer(`"a "`, "mark-spf12"), asked(call(`"a"`, ``)), dropped),
		server(s, "id-in-another-case", answer(`"A"`, "mark-spf13"), asked(call(`"a"`, ``)), dropped),
		server(s, "id-in-full-width", answer(`"ａ"`, "mark-spf14"), asked(call(`"a"`, ``)), dropped),
		server(s, "same-id-escaped", `{"jsonrpc":"2.0","id":"\u0061","result":{}}`, asked(call(`"a"`, ``)), identical, note("the same string")),
		server(s, "of-a-refused-call", answer("602", "mark-spf15"), dropped),
		server(s, "answers-its-own-ask", answer(`"q"`, "mark-spf16"), served(roots), dropped),
		server(s, "request-with-its-open-id", `{"jsonrpc":"2.0","id":"q","method":"ping","params":{"v":"mark-spf17"}}`, served(roots), dropped),
		server(s, "id-null", `{"jsonrpc":"2.0","id":null,"result":{"v":"mark-spf18"}}`, asked(call("602", ``)), dropped, then("server", answer("602", "real"))),
	}
}
