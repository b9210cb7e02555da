package hostile

import "fmt"

// policyCases try to reach a tool that is denied.
func policyCases() []*Case {
	const p = "policy"
	forbid := func(id, params string) string {
		return request(id, "tools/call", `{"name":"forbidden_tool",`+params+`}`)
	}
	cases := []*Case{
		agent(p, "plain", forbid("701", `"arguments":{"v":"mark-pol1"}`), needsDeny, refused("701")),
		agent(p, "name-last", request("701", "tools/call", `{"arguments":{"v":"mark-pol2","name":"echo"},"name":"forbidden_tool"}`), needsDeny, refused("701")),
		agent(p, "name-escaped", request("701", "tools/call", `{"name":"\u0066orbidden\u005ftool","arguments":{"v":"mark-pol3"}}`), needsDeny, refused("701")),
		agent(p, "member-escaped", request("701", "tools/call", `{"\u006e\u0061\u006d\u0065":"forbidden_tool","v":"mark-pol4"}`), needsDeny, refused("701")),
		agent(p, "method-escaped", `{"jsonrpc":"2.0","id":701,"method":"\u0074ools\/call","params":{"name":"forbidden_tool","v":"mark-pol5"}}`, needsDeny, refused("701")),
		agent(p, "params-before-method", `{"params":{"name":"forbidden_tool","v":"mark-pol6"},"id":701,"method":"tools/call","jsonrpc":"2.0"}`, needsDeny, refused("701")),
		agent(p, "blank-behind-the-name", request("701", "tools/call", `{"name":"forbidden_tool ","v":"mark-pol7"}`), refused("701", -32602)),
		agent(p, "tab-behind-the-name", request("701", "tools/call", `{"name":"forbidden_tool\t","v":"mark-pol8"}`), refused("701", -32602)),
		agent(p, "nul-behind-the-name", request("701", "tools/call", `{"name":"forbidden_tool\u0000x","v":"mark-pol9"}`), refused("701", -32602)),
		agent(p, "line-feed-behind-the-name", request("701", "tools/call", `{"name":"forbidden_tool\n","v":"mark-pol10"}`), refused("701", -32602)),
		agent(p, "byte-by-byte", forbid("701", `"arguments":{"v":"mark-pol11"}`), needsDeny, inChunks(1, 0), refused("701")),
		agent(p, "with-crlf", forbid("701", `"arguments":{"v":"mark-pol12"}`)+"\r\n", needsDeny, refused("701")),
		agent(p, "behind-a-large-argument", "", parts(`{"jsonrpc":"2.0","id":701,"method":"tools/call","params":{"arguments":{"v":"`, "0123456789", 200000, `"},"name":"forbidden_tool"}}`+"\n"), needsDeny, refused("701")),
		agent(p, "behind-many-members", "", parts(`{"jsonrpc":"2.0","id":701,"method":"tools/call","params":{"arguments":{"v":[0`, `,{"name":"echo"}`, 20000, `]},"name":"forbidden_tool"}}`+"\n"), needsDeny, refused("701")),
		agent(p, "as-a-task", forbid("701", `"task":{"ttl":1000},"arguments":{"v":"mark-pol13"}`), needsDeny, refused("701"), note("an error, since a task handle is expected")),
		agent(p, "with-a-token", forbid("701", `"_meta":{"progressToken":1},"arguments":{"v":"mark-pol14"}`), needsDeny, refused("701")),
		agent(p, "among-good-ones", call("701", ``)+"\n"+forbid("702", `"arguments":{"v":1}`)+"\n"+call("703", ``), needsDeny, func(c *Case) {
			onlyLines(0, 2)(c)
			c.Expect.Reply, c.Expect.ReplyID, c.Expect.NotServer = "error", "702", []string{"forbidden_tool"}
		}),
		agent(p, "of-a-string-id", forbid(`"\u0037"`, `"arguments":{"v":"mark-pol15"}`), needsDeny, refused(`"\u0037"`), note("the id comes back as it was written")),
		agent(p, "in-development", forbid("701", `"arguments":{"v":"dev"}`), needsDeny, development, identical, note("EC-STDIO-033: told as WOULD_BLOCK")),
		agent(p, "in-development-as-a-notification", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"forbidden_tool","v":"mark-pol16"}}`, development, silent),
		agent(p, "in-the-modern-era", mcallOf("701", "forbidden_tool", `"v":"mark-pol17"`), needsDeny, modern, refused("701")),
		agent(p, "retried", request("701", "tools/call", `{`+meta+`,"name":"forbidden_tool","requestState":"s","inputResponses":{"a":{"action":"accept","v":"mark-pol18"}}}`), needsDeny, modern, refused("701")),
		agent(p, "modern-on-a-legacy-connection", mcallOf("701", "forbidden_tool", `"v":"mark-pol19"`), needsDeny, refused("701")),
		agent(p, "legacy-on-a-modern-connection", forbid("701", `"arguments":{"v":"mark-pol20"}`), needsDeny, modern, refused("701")),
		agent(p, "another-case-of-the-method", request("701", "Tools/Call", `{"name":"forbidden_tool","v":"mark-pol21"}`), refused("701", -32601), note("some routers fold")),
		agent(p, "slash-behind-the-method", request("701", "tools/call/", `{"name":"forbidden_tool","v":"mark-pol22"}`), refused("701", -32601)),
		agent(p, "path-in-the-method", request("701", "tools/list/../call", `{"name":"forbidden_tool","v":"mark-pol23"}`), refused("701", -32601)),
		agent(p, "unknown-method", request("701", "acme/run", `{"name":"forbidden_tool","v":"mark-pol24"}`), refused("701", -32601)),
		agent(p, "unknown-method-in-development", request("701", "acme/run", `{"v":"dev"}`), development, identical),
		agent(p, "unknown-notification", `{"jsonrpc":"2.0","method":"notifications/acme/inject","params":{"v":"mark-pol25"}}`, silent),
		agent(p, "unknown-notification-in-development", `{"jsonrpc":"2.0","method":"notifications/acme/inject","params":{"v":"dev"}}`, development, identical),
		agent(p, "a-servers-method", request("701", "sampling/createMessage", `{"messages":[],"maxTokens":1,"v":"mark-pol26"}`), refused("701", -32601)),
		agent(p, "a-servers-notification", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"v":"mark-pol27"}}`, silent),
		agent(p, "prompt-name-with-a-blank", request("701", "prompts/get", `{"name":" greet","v":"mark-pol28"}`), refused("701", -32602)),
	}
	// Characters that are not seen, or that turn the direction of writing.
	for i, r := range []rune{0x200b, 0x200d, 0x2060, 0xfeff, 0x202e, 0x2066, 0x061c, 0x00ad, 0x034f, 0x115f, 0x3164, 0xfe0f, 0xe0041, 0x85, 0x7f, 0x1b, 0x2028, 0xa0} {
		name := fmt.Sprintf("forbidden%c_tool", r)
		if r < 0x20 {
			name = fmt.Sprintf(`forbidden\u%04x_tool`, r)
		}
		cases = append(cases, agent(p, fmt.Sprintf("unseen-%04x", r),
			request("701", "tools/call", fmt.Sprintf(`{"name":"%s","v":"mark-uns%d"}`, name, i)), refused("701", -32602)))
	}
	return cases
}

// mcallOf is a call of any tool in the modern era.
func mcallOf(id, tool, arguments string) string {
	return request(id, "tools/call", `{`+meta+`,"name":"`+tool+`","arguments":{`+arguments+`}}`)
}
