package hostile

import "fmt"

// envelopeCases are JSON, and not messages: version, id, method, params and
// kind.
func envelopeCases() []*Case {
	const v = "envelope"
	cases := []*Case{
		agent(v, "no-version", `{"id":501,"method":"tools/call","params":{"name":"mark-ver1"}}`, refused("501"), note("EC-STDIO-016")),
		agent(v, "version-one", `{"jsonrpc":"1.0","id":501,"method":"tools/call","params":{"name":"mark-ver2"}}`, refused("501")),
		agent(v, "version-with-a-blank", `{"jsonrpc":"2.0 ","id":501,"method":"tools/call","params":{"name":"mark-ver3"}}`, refused("501")),
		agent(v, "version-null", `{"jsonrpc":null,"id":501,"method":"tools/call","params":{"name":"mark-ver4"}}`, refused("501")),
		agent(v, "version-number", `{"jsonrpc":2.0,"id":501,"method":"tools/call","params":{"name":"mark-ver5"}}`, refused("501")),
		agent(v, "method-missing", `{"jsonrpc":"2.0","id":501,"params":{"name":"mark-met1"}}`, refused("501")),
		agent(v, "method-null", `{"jsonrpc":"2.0","id":501,"method":null,"params":{"name":"mark-met2"}}`, refused("501")),
		agent(v, "method-number", `{"jsonrpc":"2.0","id":501,"method":5,"params":{"name":"mark-met3"}}`, refused("501")),
		agent(v, "method-empty", `{"jsonrpc":"2.0","id":501,"method":"","params":{"name":"mark-met4"}}`, refused("501")),
		agent(v, "method-with-a-blank", request("501", "tools/call ", `{"name":"mark-met5"}`), refused("501")),
		agent(v, "method-with-a-nul", `{"jsonrpc":"2.0","id":501,"method":"tools/call\u0000","params":{"name":"mark-met6"}}`, refused("501")),
		agent(v, "method-with-a-line-feed", `{"jsonrpc":"2.0","id":501,"method":"ping\ntools/call","params":{"name":"mark-met7"}}`, refused("501")),
		agent(v, "method-in-cyrillic", request("501", "tооls/call", `{"name":"mark-met8"}`), refused("501")),
		agent(v, "method-in-full-width", request("501", "ｔools/call", `{"name":"mark-met9"}`), refused("501")),
		agent(v, "method-of-a-megabyte", "", parts(`{"jsonrpc":"2.0","id":501,"method":"`, "m", 1<<20, `","params":{"name":"mark-met10"}}`+"\n"), refused("501")),
		agent(v, "params-null", request("501", "tools/call", `null`), refused("501")),
		agent(v, "params-text", request("501", "tools/call", `"{\"name\":\"mark-par1\"}"`), refused("501")),
		agent(v, "params-number", request("501", "ping", `1`), refused("501")),
		agent(v, "params-list-of-a-notification", `{"jsonrpc":"2.0","method":"notifications/initialized","params":["mark-par2"]}`, dropped),
		agent(v, "arguments-list", request("501", "tools/call", `{"name":"echo","arguments":["mark-arg1"]}`), refused("501", -32602)),
		agent(v, "arguments-text", request("501", "tools/call", `{"name":"echo","arguments":"mark-arg2"}`), refused("501", -32602)),
		agent(v, "arguments-null", request("501", "tools/call", `{"name":"mark-arg3","arguments":null}`), identical, note("the Go SDK sends it for a nil map")),
		agent(v, "request-and-result", `{"jsonrpc":"2.0","id":501,"method":"tools/call","params":{"name":"mark-kin1"},"result":{}}`, refused("501")),
		agent(v, "request-and-error", `{"jsonrpc":"2.0","id":501,"method":"tools/call","params":{"name":"mark-kin2"},"error":{"code":1,"message":"x"}}`, refused("501")),
		agent(v, "result-and-error", `{"jsonrpc":"2.0","id":"q","result":{"v":"mark-kin3"},"error":{"code":1,"message":"x"}}`, served(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`), dropped),
		agent(v, "only-an-id", `{"jsonrpc":"2.0","id":501,"v":"mark-kin4"}`, dropped),
		agent(v, "only-a-version", `{"jsonrpc":"2.0"}`, silent, note("EC-STDIO-017")),
		agent(v, "shapeless-in-production", `{"jsonrpc":"2.0","v":"mark-kin5","params":{}}`, silent, note("EC-STDIO-017")),
		agent(v, "shapeless-in-development", `{"jsonrpc":"2.0","v":"kin6","x":{}}`, development, identical, note("EC-STDIO-017: told as WOULD_DROP")),
		agent(v, "no-version-in-development", `{"id":501,"method":"tools/call","params":{"name":"mark-kin7"}}`, development, refused("501"), note("syntax and ids stay enforced")),
		agent(v, "empty-object", `{}`, silent),
		agent(v, "result-without-an-id", `{"jsonrpc":"2.0","result":{"v":"mark-kin8"}}`, silent),
		agent(v, "error-without-an-id", `{"jsonrpc":"2.0","error":{"code":1,"message":"mark-kin9"}}`, silent, note("only a server may complain of nothing")),
		agent(v, "no-tool-name", request("501", "tools/call", `{"tool":"mark-act1"}`), refused("501", -32602)),
		agent(v, "tool-name-number", request("501", "tools/call", `{"name":5,"arguments":{"v":"mark-act2"}}`), refused("501", -32602)),
		agent(v, "tool-name-list", request("501", "tools/call", `{"name":["echo"],"arguments":{"v":"mark-act3"}}`), refused("501", -32602)),
		agent(v, "tool-name-empty", request("501", "tools/call", `{"name":"","arguments":{"v":"mark-act4"}}`), refused("501", -32602)),
		agent(v, "no-params-to-act-on", `{"jsonrpc":"2.0","id":501,"method":"tools/call"}`, refused("501", -32602)),
		agent(v, "no-prompt-name", request("501", "prompts/get", `{"arguments":{"v":"mark-act5"}}`), refused("501", -32602)),
		agent(v, "no-uri", request("501", "resources/read", `{"name":"mark-act6"}`), refused("501", -32602)),
		agent(v, "uri-null", request("501", "resources/read", `{"uri":null,"v":"mark-act7"}`), refused("501", -32602)),
		agent(v, "uri-with-a-control", request("501", "resources/read", `{"uri":"file:///a\u0007mark-act8"}`), refused("501", -32602)),
		agent(v, "subscribe-without-uri", request("501", "resources/subscribe", `{"v":"mark-act9"}`), refused("501", -32602)),
		agent(v, "complete-without-ref", request("501", "completion/complete", `{"argument":{"name":"a","value":"mark-act10"}}`), refused("501", -32602)),
		agent(v, "complete-of-no-kind", request("501", "completion/complete", `{"ref":{"type":"ref/x","name":"n"},"argument":{"name":"a","value":"mark-act11"}}`), refused("501", -32602)),
		agent(v, "notification-that-is-a-request", `{"jsonrpc":"2.0","id":501,"method":"notifications/cancelled","params":{"requestId":1,"v":"mark-not1"}}`, refused("501")),

		server(v, "neither-result-nor-error", `{"jsonrpc":"2.0","id":501,"v":"mark-srv1"}`, asked(call("501", ``)), lost("501")),
		server(v, "result-and-error", `{"jsonrpc":"2.0","id":501,"result":{"v":"mark-srv2"},"error":{"code":1,"message":"x"}}`, asked(call("501", ``)), lost("501")),
		server(v, "error-of-text", `{"jsonrpc":"2.0","id":501,"error":"mark-srv3"}`, asked(call("501", ``)), lost("501")),
		server(v, "error-null", `{"jsonrpc":"2.0","id":501,"error":null,"v":"mark-srv4"}`, asked(call("501", ``)), lost("501")),
		server(v, "error-without-code", `{"jsonrpc":"2.0","id":501,"error":{"message":"mark-srv5"}}`, asked(call("501", ``)), lost("501")),
		server(v, "error-code-of-text", `{"jsonrpc":"2.0","id":501,"error":{"code":"-1","message":"mark-srv6"}}`, asked(call("501", ``)), lost("501")),
		server(v, "error-code-fraction", `{"jsonrpc":"2.0","id":501,"error":{"code":1.5,"message":"mark-srv7"}}`, asked(call("501", ``)), lost("501")),
		server(v, "error-without-message", `{"jsonrpc":"2.0","id":501,"error":{"code":1,"data":"mark-srv8"}}`, asked(call("501", ``)), lost("501")),
		server(v, "error-message-of-an-object", `{"jsonrpc":"2.0","id":501,"error":{"code":1,"message":{"v":"mark-srv9"}}}`, asked(call("501", ``)), lost("501")),
		server(v, "no-version", `{"id":501,"result":{"v":"mark-srv10"}}`, asked(call("501", ``)), lost("501"), note("EC-STDIO-016")),
		server(v, "result-and-method", `{"jsonrpc":"2.0","id":501,"method":"ping","result":{"v":"mark-srv11"}}`, asked(call("501", ``)), dropped),
		server(v, "result-without-an-id", `{"jsonrpc":"2.0","result":{"v":"mark-srv12"}}`, dropped),
		server(v, "shapeless", `{"jsonrpc":"2.0","v":"mark-srv13"}`, dropped, note("EC-STDIO-017")),
		server(v, "shapeless-in-development", `{"jsonrpc":"2.0","v":"srv14"}`, development, identical, note("EC-STDIO-017")),
		server(v, "batch-of-answers", "["+answer("501", "mark-srv15")+"]", asked(call("501", ``)), lost("501"), note("EC-STDIO-035")),
		server(v, "ids-of-two-types", `{"jsonrpc":"2.0","id":501,"id":"501","result":{"v":"mark-srv16"}}`, asked(call("501", ``)), dropped),
	}
	for i, id := range []string{`null`, `true`, `{}`, `[501]`, `501.5`, `501.0`, `5e2`, `-0`, `9223372036854775808`, `-9223372036854775809`, `"` + repeat("x", 1025) + `"`, `"\ud800"`} {
		cases = append(cases,
			agent(v, fmt.Sprintf("id-%d", i), call(id, fmt.Sprintf(`"v":"mark-id%d"`, i)), dropped, note("id "+id[:min(len(id), 24)])),
			server(v, fmt.Sprintf("id-%d", i), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"v":"mark-id%d"}}`, id, i), dropped))
	}
	for i, method := range []string{"tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete", "tasks/update", "sampling/createMessage"} {
		cases = append(cases, agent(v, fmt.Sprintf("acts-without-an-id-%d", i),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"name":"mark-ntf%d","uri":"file:///a"}}`, method, i), silent, note("servers exist that run it")))
	}
	return cases
}
