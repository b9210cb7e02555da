package mcp

import "github.com/thoughtgate/thoughtgated/internal/wire"

// Treatment is what the shim does with a message.
type Treatment uint8

const (
	Pass    Treatment = iota + 1 // write it on as it came
	Judge                        // submit it, hold it, obey the verdict
	Filter                       // of a list: pass the request, submit the result
	Inspect                      // of a result: submit it when it asks for something
	Refuse                       // answer for the other side, or drop it
)

// Subject is what kind of thing a message is about.
type Subject uint8

const (
	None      Subject = iota
	Tool              // params.name
	Resource          // params.uri
	Prompt            // params.name
	Reference         // params.ref, a prompt or a template of resources
	Task              // params.taskId
	Listen            // params.notifications.resourceSubscriptions, any number of resources
)

// Rule is what the table says of a message.
type Rule struct {
	Treatment Treatment
	Subject   Subject

	// Acting marks a request that makes the server do something for the agent,
	// and has to name what.
	Acting bool

	// Answers marks a request that has nothing to be judged by itself, as one for a
	// list, and is made again with what a user answered to the server.
	Answers bool

	// Ask marks a request in which a server asks something of the agent or its
	// user.
	Ask bool

	// Record marks a message that passes and is written down all the same.
	Record bool

	// Observe marks a message that passes and whose content the daemon wants
	// to see before it is written on: what it says may reach a model.
	Observe bool

	// Unknown marks a method that is not in the table. It is submitted, and
	// the daemon does what its configuration says of such methods.
	Unknown bool
}

// Lookup returns the rule for a request or notification that side wrote. Its
// era is that of e: who knows that a connection has only modern requests sets
// e.Modern on what its server sends, which does not say so itself. Answers are
// looked up by the request they answer, see [LookupResult].
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

// misplaced reports whether the method of k, which is not in the table, is known
// from the other side or as the other kind of message only. That is never right,
// whatever is thought of methods that nobody knows.
func misplaced(k key) bool {
	k.modern = !k.modern
	_, inOtherEra := rules[k]
	_, known := methods[k.method]
	return known && !inOtherEra
}

// LookupResult returns the rule for the result of a request for method, in the
// era of that request, when side wrote the result. Every result that does not
// have to be submitted is inspected: a client may heed an ask in the answer to
// anything. The results of unknown methods are observed too.
func LookupResult(side wire.Side, method string, modern bool) Rule {
	if side == wire.FromAgent && modern {
		return Rule{Treatment: Refuse} // the agent writes no answers in the modern era
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

// ListOf returns, for a method that lists something, the member of its result
// that is the list, and what its elements are to the policy: tools, resources
// or prompts. Both are empty for any other method.
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

// listNotifications are the notifications by which a server says that lists are
// no longer what they were, each with the methods that give these lists and the
// capability that they belong to.
var listNotifications = []struct {
	method, capability string
	lists              []string
}{
	{"notifications/tools/list_changed", "tools", []string{"tools/list"}},
	{"notifications/prompts/list_changed", "prompts", []string{"prompts/list"}},
	{"notifications/resources/list_changed", "resources", []string{"resources/list", "resources/templates/list"}},
}

// ListNotifications are the notifications by which a server says that one of its
// lists has changed.
func ListNotifications() []string {
	var all []string
	for _, n := range listNotifications {
		all = append(all, n.method)
	}
	return all
}

// listsChanged returns the capability and the lists of a notification of changed
// lists; they are empty for any other notification.
func listsChanged(notification string) (capability string, lists []string) {
	for _, n := range listNotifications {
		if n.method == notification {
			return n.capability, n.lists
		}
	}
	return "", nil
}

// ListsOf returns the methods that give the lists of which a notification says
// that they have changed; nil for any other notification.
func ListsOf(notification string) []string {
	_, lists := listsChanged(notification)
	return lists
}

// ListCapability returns the capability that a notification of changed lists
// belongs to, as tools; empty for any other notification.
func ListCapability(notification string) string {
	capability, _ := listsChanged(notification)
	return capability
}

// ListChanged returns, for the notification by which a server says that a list
// is no longer what it was, the method that gives the list; it is empty for any
// other. Of resources it is the list of their templates: what resources there
// are changes all the time.
func ListChanged(notification string) (method string) {
	lists := ListsOf(notification)
	if lists == nil {
		return ""
	}
	return lists[len(lists)-1]
}

// IsAsk reports whether method is one by which a server asks something of the
// agent: as a request in the legacy era, inside a result in the modern one.
func IsAsk(method string) bool {
	return rules[key{method, wire.FromServer, false, false}].Ask
}
