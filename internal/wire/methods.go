package wire

// methods holds the names of MCP's methods, so that reading a message does not
// have to copy them. What they mean is not known here.
var methods = intern(
	"initialize", "ping", "server/discover", "logging/setLevel", "completion/complete",
	"tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
	"resources/unsubscribe", "resources/directory/read", "subscriptions/listen",
	"prompts/list", "prompts/get", "skills/list", "skills/get",
	"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
	"sampling/createMessage", "elicitation/create", "roots/list",
	"notifications/initialized", "notifications/cancelled", "notifications/progress",
	"notifications/message", "notifications/tools/list_changed",
	"notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated", "notifications/subscriptions/acknowledged",
	"notifications/roots/list_changed", "notifications/elicitation/complete",
	"notifications/tasks/status", "notifications/tasks",
)

func intern(names ...string) map[string]string {
	table := make(map[string]string, len(names))
	for _, name := range names {
		table[name] = name
	}
	return table
}
