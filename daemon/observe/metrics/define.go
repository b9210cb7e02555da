package metrics

// definition is one metric: its name, kind, help text and labels. The page docs/metrics.md is
// generated from these.
type definition struct {
	name, kind, help string
	labels           []string
}

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// definitions are all metrics of ThoughtGate, in the order of the page.
var definitions []definition

func define(name, kind, help string, labels ...string) definition {
	d := definition{name, kind, help, labels}
	definitions = append(definitions, d)
	return d
}

// Metrics named by NFR-002 of the specification.
var (
	messages = define("thoughtgate_stdio_messages_total", counter,
		"Messages read from agents and servers, with answers under the method that they answer.",
		"server_id", "direction", "method")
	decisions = define("thoughtgate_stdio_governance_decisions_total", counter,
		"Verdicts on messages. A call that is held for a person counts as hold, and again with its final verdict.",
		"server_id", "decision", "profile")
	framingErrors = define("thoughtgate_stdio_framing_errors_total", counter,
		"Lines that were refused because they can't be read.",
		"server_id", "error_type")
	serverState = define("thoughtgate_stdio_server_state", gauge,
		"Processes of a server that are starting or running now, and those that have exited, were ended by a signal (signalled) or could not be started (failed) since the daemon started.",
		"server_id", "state")
	orphans = define("thoughtgate_stdio_orphaned_requests_total", counter,
		"Requests without an answer for longer than limits.orphan.",
		"server_id", "direction", "method")
	approvalLatency = define("thoughtgate_stdio_approval_latency_seconds", histogram,
		"Time from the question to the answer of a person, without questions that nobody answered.",
		"server_id")
	activeServers = define("thoughtgate_stdio_active_servers", gauge,
		"Server processes that run behind tg-shim now.")
)

// Metrics of the gates.
var (
	verdicts = define("thoughtgate_gate_verdicts_total", counter,
		"Verdicts by the gate that decided.",
		"gate", "verdict")
	judgeDuration = define("thoughtgate_judge_duration_seconds", histogram,
		"Time from the arrival of a message at the daemon until its first verdict was recorded, without the wait for a person.")
	toolCalls = define("thoughtgate_tool_calls_total", counter,
		"Verdicts on calls of tools.",
		"server_id", "tool", "decision")
	outcomes = define("thoughtgate_call_outcomes_total", counter,
		"Outcomes of forwarded calls.",
		"server_id", "outcome")
)

// Metrics of the policy set.
var (
	setInfo = define("thoughtgate_policy_set_info", gauge,
		"1 for the policy set in force.",
		"digest", "profile")
	setSince = define("thoughtgate_policy_set_timestamp_seconds", gauge,
		"When the policy set in force was loaded, in seconds since 1970.")
	setRules = define("thoughtgate_policy_rules", gauge,
		"Rules in force.")
	setPolicies = define("thoughtgate_policy_cedar_policies", gauge,
		"Cedar policies in force.")
	reloads = define("thoughtgate_policy_reloads_total", counter,
		"Reloads of the configuration.",
		"result")
	reloadFailed = define("thoughtgate_policy_reload_failed", gauge,
		"1 if the last reload failed and the previous set is still in force.")
)

// Metrics of questions to people.
var (
	questionsOpen = define("thoughtgate_approvals_open", gauge,
		"Questions that wait for a person.")
	callsWaiting = define("thoughtgate_approvals_waiting_calls", gauge,
		"Calls that wait for an answer. Equal calls share a question; parked calls do not wait.")
	questionsEnded = define("thoughtgate_approvals_ended_total", counter,
		"Questions that have ended, and where they were answered.",
		"state", "surface")
	heldDefinitions = define("thoughtgate_definitions_held", gauge,
		"Definitions of tools, prompts and templates that wait for a person.")
	withheldStarts = define("thoughtgate_starts_withheld", gauge,
		"Servers of projects that are withheld until a person accepts them.")
)

// Metrics of the audit log.
var (
	auditRecords = define("thoughtgate_audit_records_total", counter,
		"Records written.")
	auditErrors = define("thoughtgate_audit_errors_total", counter,
		"Records that could not be written. The calls were denied.")
	auditWrite = define("thoughtgate_audit_write_duration_seconds", histogram,
		"Time until a record was as durable as audit.sync requires.")
	auditUnsynced = define("thoughtgate_audit_unsynced_records", gauge,
		"Records that are written but not on stable storage yet. Absent if audit.sync is never.")
	auditLag = define("thoughtgate_audit_lag_seconds", gauge,
		"Age of the oldest unsynced record. Absent if audit.sync is never.")
	auditUnindexed = define("thoughtgate_audit_unindexed_bytes", gauge,
		"Bytes of the log that are not in its index: usually up to 4 MiB, all of them without an index.")
	auditSize = define("thoughtgate_audit_size_bytes", gauge,
		"Bytes of the log.")
	auditFailing = define("thoughtgate_audit_failing", gauge,
		"1 while the log can't be written and governed calls are denied.")
)

// Metrics of processes and of the daemon itself.
var (
	processes = define("thoughtgate_processes", gauge,
		"Programs that run, or should run, under ThoughtGate: servers behind tg-shim, and shared servers, extensions and agents run by the daemon.",
		"kind", "state")
	restarts = define("thoughtgate_process_restarts_total", counter,
		"Restarts of a program that the daemon runs.",
		"kind", "name")
	shims = define("thoughtgate_shims", gauge,
		"Attached tg-shims.")
	sessions = define("thoughtgate_sessions", gauge,
		"Sessions whose wrap is running.")
	ungoverned = define("thoughtgate_ungoverned_servers", gauge,
		"Ungoverned servers that agents start in their sessions.")
	reattachments = define("thoughtgate_shim_reattachments_total", counter,
		"tg-shims that this daemon has taken over from the previous one.")
	shimsLost = define("thoughtgate_shims_lost_total", counter,
		"tg-shims that were lost without a message.")
	callersRefused = define("thoughtgate_callers_refused_total", counter,
		"Calls of the control socket that were refused, such as those from below a wrapped agent.")
	buildInfo = define("thoughtgate_build_info", gauge,
		"1, with the version of the daemon and of Go.",
		"version", "go")
)

// Buckets of histograms, in seconds.
var (
	quick = []float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 50e-3, 250e-3, 1, 5}
	slow  = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
)
