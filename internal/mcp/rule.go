package mcp

import (
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Treatment is what the relay does with a message.
type Treatment uint8

const (
	Pass    Treatment = iota + 1 // forward it unchanged
	Judge                        // submit it, hold it, apply the verdict
	Filter                       // for a list: forward the request, submit the result
	Inspect                      // for a result: submit it if it asks for something
	Refuse                       // answer for the other side, or drop it
)

// Subject is the kind of thing a message is about.
type Subject uint8

const (
	None      Subject = iota
	Tool              // params.name
	Resource          // params.uri
	Prompt            // params.name
	Reference         // params.ref, a prompt or a resource template
	Task              // params.taskId
	Listen            // params.notifications.resourceSubscriptions, any number of resources
)

// Rule is the table's entry for a message.
type Rule struct {
	Treatment Treatment
	Subject   Subject

	// Acting marks a request that makes the server do something for the agent. It must
	// name its subject.
	Acting bool

	// Answers marks a request that is not judged by itself, such as one for a list, but
	// is repeated with the user's answers to the server.
	Answers bool

	// Ask marks a request in which a server asks the agent or its user for something.
	Ask bool

	// Record marks a message that is passed and also recorded.
	Record bool

	// Observe marks a message that is passed, but whose content the daemon must see
	// before it is forwarded, since it may reach a model.
	Observe bool

	// Unknown marks a method that is not in the table. It is submitted, and the daemon
	// applies its configuration for unknown methods.
	Unknown bool
}

// Lookup returns the rule for a request or notification written by side. Its era is
// e.Modern. A server's messages do not state their era, so a caller that knows that a
// connection is modern must set e.Modern. Results are looked up by the request they
// answer, see [LookupResult].
func Lookup(side wire.Side, e *wire.Envelope) Rule {
	k := key{e.Method, side, e.Kind == wire.Notification, e.Modern}
	if rule, ok := rules[k]; ok {
		if side == wire.FromAgent && e.Kind == wire.Request && e.InputResponses.Present() && !rule.Acting {
			return Rule{Treatment: Judge, Answers: true}
		}
		return rule
	}
	if side == wire.FromServer && e.Kind == wire.Request && e.Modern {
		return Rule{Treatment: Refuse}
	}
	if misplaced(k) {
		return Rule{Treatment: Refuse}
	}
	return Rule{Treatment: Judge, Unknown: true}
}

// misplaced reports whether the method of k, which is not in the table, is known only
// from the other side or as the other kind of message. That is always an error, whatever
// the configuration says about unknown methods.
func misplaced(k key) bool {
	k.modern = !k.modern
	_, inOtherEra := rules[k]
	_, known := methods[k.method]
	return known && !inOtherEra
}

// LookupResult returns the rule for a result, written by side, of a request for method in
// the era modern. Every result that need not be submitted is inspected: a client may act
// on an ask in any result. Results of unknown methods are also observed.
func LookupResult(side wire.Side, method string, modern bool) Rule {
	if side == wire.FromAgent && modern {
		return Rule{Treatment: Refuse} // an agent writes no results in the modern era
	}
	asker := wire.FromAgent
	if side == wire.FromAgent {
		asker = wire.FromServer
	}
	rule, ok := results[key{method, asker, false, modern}]
	if !ok {
		rule = observed
	}
	if rule.Treatment == Pass {
		rule.Treatment = Inspect
	}
	return rule
}

// ListOf returns, for a method that lists something, the member of its result that
// contains the list, and the policy's kind for its elements: tools, resources or prompts.
// Both are empty for any other method.
func ListOf(method string) (member, kind string) {
	switch method {
	case "tools/list":
		return "tools", "tools"
	case "prompts/list":
		return "prompts", "prompts"
	case "resources/list":
		return "resources", "resources"
	case "resources/templates/list":
		return "resourceTemplates", "resources"
	case "skills/list":
		return "skills", "resources"
	}
	return "", ""
}

// listNotifications are the notifications by which a server announces changed lists, each
// with the methods that return these lists and the capability they belong to.
var listNotifications = []struct {
	method, capability string
	lists              []string
}{
	{"notifications/tools/list_changed", "tools", []string{"tools/list"}},
	{"notifications/prompts/list_changed", "prompts", []string{"prompts/list"}},
	{"notifications/resources/list_changed", "resources", []string{"resources/list", "resources/templates/list"}},
}

// ListNotifications returns the methods of the notifications by which a server announces
// a changed list.
func ListNotifications() []string {
	var all []string
	for _, n := range listNotifications {
		all = append(all, n.method)
	}
	return all
}

// listsChanged returns the capability and the list methods of a list_changed
// notification; both are empty for any other notification.
func listsChanged(notification string) (capability string, lists []string) {
	for _, n := range listNotifications {
		if n.method == notification {
			return n.capability, n.lists
		}
	}
	return "", nil
}

// ListsOf returns the methods that return the lists a list_changed notification is about;
// nil for any other notification.
func ListsOf(notification string) []string {
	_, lists := listsChanged(notification)
	return lists
}

// ListCapability returns the capability that a list_changed notification belongs to, such
// as "tools"; empty for any other notification.
func ListCapability(notification string) string {
	capability, _ := listsChanged(notification)
	return capability
}

// ListChanged returns, for a list_changed notification, the method that returns the list;
// empty for any other notification. For resources it is the list of their templates,
// since the list of resources changes all the time.
func ListChanged(notification string) (method string) {
	lists := ListsOf(notification)
	if lists == nil {
		return ""
	}
	return lists[len(lists)-1]
}

// IsAsk reports whether a server uses method to ask the agent for something: as a request
// in the legacy era, inside a result in the modern era.
func IsAsk(method string) bool {
	return rules[key{method, wire.FromServer, false, false}].Ask
}

// Methods returns the known methods of messages that side writes: requests and
// notifications of every era, sorted.
func Methods(side wire.Side) []string {
	var all []string
	for k := range rules {
		if k.side == side {
			all = append(all, k.method)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// IsCall reports whether a message with method that side sends makes the other side do something, or asks
// it for something. Lists are none, and notifications. A request of an unknown method may be one.
func IsCall(side wire.Side, method string) bool {
	if _, known := methods[method]; !known {
		return !strings.HasPrefix(method, "notifications/")
	}
	for _, modern := range []bool{false, true} {
		if rule := rules[key{method, side, false, modern}]; rule.Acting || rule.Ask {
			return !strings.HasSuffix(method, "/list")
		}
	}
	return false
}

// SubjectKind returns the kind of subject of an agent's request for method. It is None if
// the request has no subject or the method is unknown.
func SubjectKind(method string) Subject {
	for _, modern := range []bool{false, true} {
		if rule, ok := rules[key{method, wire.FromAgent, false, modern}]; ok && rule.Acting {
			return rule.Subject
		}
	}
	return None
}

// revisions are the revisions that the tables cover, oldest first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// Revisions returns the revisions of MCP that the tables cover, oldest first.
func Revisions() []string { return slices.Clone(revisions) }

// KnownRevision reports whether the tables cover the revision that a request names. A
// request that names none, as in the legacy era, is covered.
func KnownRevision(e *wire.Envelope, line []byte) bool {
	if !e.Version.Present() {
		return true
	}
	version, err := wire.Unquote(e.Version, line)
	return err == nil && slices.Contains(revisions, version)
}

// Supported returns the revisions in the result of a server/discover that the tables
// cover. It returns nil if there are none or the result can't be read.
func Supported(e *wire.Envelope, line []byte) []string {
	if !e.Result.Present() {
		return nil
	}
	array, err := wire.Member(line, e.Result, "supportedVersions")
	if err != nil || !array.Present() {
		return nil
	}
	items, err := wire.Elements(line, array)
	if err != nil {
		return nil
	}
	var both []string
	for _, item := range items {
		if version, err := wire.Unquote(item, line); err == nil && slices.Contains(revisions, version) {
			both = append(both, version)
		}
	}
	return both
}
