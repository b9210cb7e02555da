package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What is promised of MCP beyond the table of methods, and the test that shows it:
// a package and a test, a case of that test where it has many, or a transcript of
// the shim. What each method meets is tested row by row: TestEveryRowIsTested in
// internal/mcp.
var promises = []struct{ promise, by string }{
	{"ask: a refused sampling is answered -1", "cmd/tg-shim TestAsksDenied"},
	{"ask: a refused elicitation is declined", "cmd/tg-shim TestAsksDenied"},
	{"ask: refused roots are not available", "cmd/tg-shim TestAsksDenied"},
	{"ask: sampling and url elicitation follow the default for asks", `daemon/policy TestRules "url":`},
	{"ask: forms and roots are forwarded where no rule names them", `daemon/policy TestRules "form":`},
	{"ask: rules name roots", `daemon/policy TestRules "roots, named":`},
	{"ask: policies see text, tools, properties, scheme and host", "daemon/policy TestEntityModelOfTheRest"},
	{"ask: a server pings, and asks for tasks that the agent runs", "transcript asks-legacy"},
	{"ask: any other request of a server is refused", "transcript refuse-server"},
	{"ask: a modern server asks nothing by request", "transcript asks-modern"},
	{"ask: an answer without an ask is dropped", "transcript asks-answers"},
	{"ask: one function judges both forms", "daemon/gate TestAsksInsideAnswers"},
	{"ask: of tools/call, resources/read and prompts/get", `daemon/gate TestAsksInsideAnswers "of a prompt"`},
	{"ask: of tasks/get", `daemon/gate TestAsksInsideAnswers "of a task"`},
	{"ask: of notifications/tasks", `daemon/gate TestAsksInsideAnswers "told of a task"`},
	{"ask: of the error that requires a page", `daemon/gate TestAsksInsideAnswers "a page that is refused"`},
	{"ask: an answer of an unknown type is refused", `daemon/gate TestAsksInsideAnswers "a type that nobody knows"`},
	{"ask: an answer waits for a person while others pass", "transcript answer-held"},
	{"ask: an answer waits over a restart of the daemon", "cmd/tg-shim TestAnswersAreHeld"},
	{"retry: not asked again with the state that was given", `daemon/gate TestRetriedCalls "with the state that was given"`},
	{"retry: not asked again where none was given", `daemon/gate TestRetriedCalls "without a state where none was given"`},
	{"retry: at most eight times, and within the validity", "daemon/gate TestRetriesAreBounded"},
	{"retry: rule and permit judge each round", "daemon/gate TestRetriedCallsAreJudged"},
	{"retry: policies see the answers", "daemon/policy TestEntityModelOfTheRest"},
	{"task: tasks/update is judged as the tool of the task", "daemon/gate TestTasksAreJudgedAsTheirTool"},
	{"listen: refused resources are cut out", `daemon/gate TestListen "one is"`},
	{"listen: all refused, and nothing else asked", `daemon/gate TestListen "all are"`},

	{"list: elements are decided one by one, by name, URI or template", "daemon/policy TestVisible"},
	{"list: what is left stays to the byte", "cmd/tg-shim TestListsAreTrimmed"},
	{"list: cursors are kept", `cmd/tg-shim TestListsAreTrimmed "emptied"`},
	{"list: a trimmed modern one is private and short-lived", "daemon/gate TestTrimmedListsAreShortLived"},
	{"list: an agent is told of a change, legacy", `cmd/tg-shim TestAgentIsToldOfItsLists "legacy"`},
	{"list: ... if the server tells", `cmd/tg-shim TestAgentIsToldOfItsLists "legacy, without the capability"`},
	{"list: ... modern, on each subscription", `cmd/tg-shim TestAgentIsToldOfItsLists "modern"`},
	{"list: ... otherwise of nothing", `cmd/tg-shim TestAgentIsToldOfItsLists "modern, without a subscription"`},
	{"list: the gate at the call decides", `daemon/policy TestRules "not listed":`},
	{"list: annotations only tighten", "daemon/pin TestDestructiveActs"},
	{"list: definitions are pinned", "daemon TestRugPull"},

	{"denial: a call gets a result", `internal/mcp TestDeny "a call, legacy"`},
	{"denial: ... of type complete in the modern era", `internal/mcp TestDeny "a call, modern"`},
	{"denial: a hidden tool is unknown", `internal/mcp TestDeny "a hidden tool"`},
	{"denial: a hidden resource is not found, by era", `internal/mcp TestDeny "a hidden resource, modern"`},
	{"denial: a call as a task gets an error", `internal/mcp TestDeny "a call as a task"`},
	{"denial: an error when the gate is gone", `internal/mcp TestDeny "the gate is gone"`},
	{"denial: an accident in the daemon is a result", `internal/mcp TestDeny "an accident in the daemon"`},
	{"denial: every other request gets an error with data", `internal/mcp TestDeny "a read"`},
	{"denial: an answer with a refused ask is replaced", `internal/mcp TestDeny "the result of a call"`},
	{"denial: ... by an error for a read", `internal/mcp TestDeny "the result of a read"`},
	{"denial: the text names what refused and whether repeating helps", `daemon/gate TestVerdicts "deny"`},

	{"held: past the limit a call is refused", `daemon/gate TestVerdicts "nobody can be asked"`},
	{"held: what comes behind goes on", "transcript order"},
	{"held: the gates are asked again after a yes", `daemon/gate TestAfterTheAnswer "the gates are asked again after a yes"`},

	{"unknown: methods are refused in production", `daemon/policy TestRules "unknown method":`},
	{"unknown: notifications are dropped in production", `daemon/policy TestRules "unknown notification":`},
	{"unknown: revisions are refused in production", `daemon/policy TestRules "unknown revision":`},
	{"unknown: forwarded in development", "daemon/policy TestRulingsSayWhatIsNeeded"},
	{"unknown: a rule lets one through", `daemon/policy TestRules "unknown, named":`},
	{"unknown: -32022 with what the server speaks", "daemon/gate TestSupportedRevisions"},
	{"unknown: a legacy revision passes", "cmd/tg-shim TestVersionsPassThrough"},
	{"unknown: an HTTP/2 preface is no message", "internal/test/hostile TestCases"},

	{"framing: batches are refused", `internal/wire TestRead row: "batches"`},
	{"framing: ids keep their type", "transcript forged"},
	{"framing: what is too long is answered with an error", "cmd/tg-shim TestEndlessLine"},
	{"framing: a modern agent answers nothing", "transcript asks-modern"},
	{"framing: the ladder fits the agent's patience", "internal/child TestStopLadder"},

	{"1. server/discover to a legacy server", "cmd/tg-shim TestDiscoverIsNotHeld"},
	{"2. a forbidden ask in a result, and an allowed one beside it", "cmd/tg-shim TestForbiddenAskBesideAnAllowedOne"},
	{"3. a retried call", "cmd/tg-shim TestRetriedCallAsksOnce"},
	{"4. a cancel of a held call", "transcript cancel-held"},
	{"4. a cancel of a forwarded call", "transcript cancel-forwarded"},
	{"5. pages", "cmd/tg-shim TestListsAreTrimmed"},
	{"6. beats carry the client's token, rise, and stop", "transcript beat"},
	{"6. no token, no beat", "transcript beat"},
	{"6. none right before the answer", "transcript beat"},
	{"7. a parked question lets exactly one identical call through", "daemon/approval TestParking"},
	{"7. with a client that waits five seconds", "internal/test/e2e TestDecisionAfterTheClientsTime"},
	{"8. a hundred calls held", "cmd/tg-shim TestHundredHeldByTheDaemon"},
	{"9. everything is forwarded", "cmd/tg-shim TestForwardsEverything"},
}

func TestPromisesAreTested(t *testing.T) {
	tests := map[string]string{} // package and test: the text of its file
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{"client", "cmd", "daemon", "internal"} {
		walk(t, root, func(path string, text []byte) {
			if strings.HasSuffix(path, "_test.go") {
				for _, found := range name.FindAllSubmatch(text, -1) {
					tests[filepath.ToSlash(filepath.Dir(path))+" "+string(found[1])] = string(text)
				}
			}
		})
	}
	var numbers []string
	for _, p := range promises {
		first, rest, _ := strings.Cut(p.by, " ")
		if first == "transcript" {
			if _, err := os.Stat(filepath.Join(top, "daemon/relay/testdata/transcripts", rest+".txt")); err != nil {
				t.Errorf("%s: %v", p.promise, err)
			}
		} else {
			test, kase, _ := strings.Cut(rest, " ")
			if text, ok := tests[first+" "+test]; !ok || !strings.Contains(text, kase) {
				t.Errorf("%s: no test %s", p.promise, p.by)
			}
		}
		if number, _, ok := strings.Cut(p.promise, ". "); ok && len(number) == 1 {
			numbers = append(numbers, number)
		}
	}
	for _, number := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		if !slices.Contains(numbers, number) {
			t.Errorf("number %s of the list is shown by no test", number)
		}
	}
}
