package audit

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Records are exported for systems that collect the events of many products as events of
// the Open Cybersecurity Schema Framework 1.5.0, class API Activity, profile
// security_control. A test compares them with the requirements of that class.
const (
	ocsfVersion  = "1.5.0"
	ocsfCategory = 6    // Application Activity
	ocsfClass    = 6003 // API Activity
)

// Values of the schema's enumerations that occur in records.
const (
	ocsfRead  = 2  // activity_id
	ocsfOther = 99 // of any

	ocsfInformational, ocsfLow, ocsfMedium = 1, 2, 3 // severity_id

	ocsfSuccess, ocsfFailure = 1, 2 // status_id

	ocsfAllowed, ocsfDenied, ocsfObserved = 1, 2, 3 // action_id

	ocsfLetThrough, ocsfBlocked, ocsfApproved, ocsfDelayed, ocsfLogged, ocsfRejected = 1, 2, 8, 14, 17, 25 // disposition_id
)

// ocsfEvent is one event. Members without a value in the record are left out.
type ocsfEvent struct {
	ActivityID    int         `json:"activity_id"`
	ActivityName  string      `json:"activity_name"`
	CategoryUID   int         `json:"category_uid"`
	CategoryName  string      `json:"category_name"`
	ClassUID      int         `json:"class_uid"`
	ClassName     string      `json:"class_name"`
	TypeUID       int         `json:"type_uid"`
	Time          int64       `json:"time"` // Unix time in milliseconds
	SeverityID    int         `json:"severity_id"`
	StatusID      int         `json:"status_id,omitempty"`
	Status        string      `json:"status,omitempty"`
	ActionID      int         `json:"action_id,omitempty"`
	DispositionID int         `json:"disposition_id,omitempty"`
	Duration      int64       `json:"duration,omitempty"` // milliseconds
	Message       string      `json:"message,omitempty"`
	Metadata      ocsfThing   `json:"metadata"`
	Actor         ocsfThing   `json:"actor"`
	API           ocsfThing   `json:"api"`
	Source        ocsfThing   `json:"src_endpoint"`
	Destination   ocsfThing   `json:"dst_endpoint,omitempty"`
	Resources     []ocsfThing `json:"resources,omitempty"`
	Policy        ocsfThing   `json:"policy,omitempty"`
	RawData       string      `json:"raw_data"` // the record as it is stored
	Unmapped      ocsfThing   `json:"unmapped,omitempty"`
}

// ocsfThing is an object in an event.
type ocsfThing map[string]any

// filled removes the members that have no value from o and returns o.
func (o ocsfThing) filled() ocsfThing {
	maps.DeleteFunc(o, func(_ string, value any) bool {
		switch value := value.(type) {
		case string:
			return value == ""
		case []string:
			return len(value) == 0
		case ocsfThing:
			return len(value) == 0
		}
		return false
	})
	return o
}

// ocsf converts a record to an event. line is the record as it is stored, log the id of
// its log, and build the version of this program.
func ocsf(r *record.Record, line []byte, log, build string) ([]byte, error) {
	e := ocsfEvent{
		CategoryUID: ocsfCategory, CategoryName: "Application Activity", ClassUID: ocsfClass, ClassName: "API Activity",
		Time: r.Time.UnixMilli(), Duration: time.Duration(r.LatencyUS * int64(time.Microsecond)).Milliseconds(),
		Message: cmp.Or(r.Reason, strings.TrimSpace(string(r.Kind)+" "+r.Verdict)), RawData: string(line),
		Metadata: ocsfThing{
			"version": ocsfVersion, "product": ocsfThing{"name": "ThoughtGate", "vendor_name": "ThoughtGate", "version": build}.filled(),
			"profiles": []string{"security_control"}, "log_name": log, "log_version": strconv.Itoa(r.V), "sequence": r.Seq,
			"uid": log + "/" + strconv.FormatUint(r.Seq, 10), "correlation_uid": cmp.Or(r.ID, r.Approval),
		}.filled(),
		Actor: ocsfThing{
			"app_name": cmp.Or(r.Agent, "thoughtgated"), "session": ocsfThing{"uid": r.Session}.filled(), "invoked_by": r.Decider,
		}.filled(),
		// Members that the schema has no place for.
		Unmapped: ocsfThing{
			"attachment": r.Attachment, "launch": r.Launch, "would": r.Would, "gate": r.Gate, "profile": r.Profile,
			"approval": r.Approval, "surface": r.Surface, "approver": r.Approver, "level": r.Level, "digest": r.Digest, "rule": r.Rule, "prev": r.Prev,
			"facts": r.Facts, "extensions": r.Extensions,
		}.filled(),
	}
	e.judged(r)
	e.does(r)
	if rule := cmp.Or(strings.Join(r.Policies, ", "), r.Rule); rule != "" {
		e.Policy = ocsfThing{"name": rule, "version": r.Set, "is_applied": r.Would == ""}.filled()
	}
	return json.Marshal(e)
}

// does sets what was done, by whom, and to whom.
func (e *ocsfEvent) does(r *record.Record) {
	e.ActivityID, e.ActivityName = ocsfOther, cmp.Or(r.Method, string(r.Kind))
	if strings.HasSuffix(r.Method, "/read") || strings.HasSuffix(r.Method, "/list") || strings.HasSuffix(r.Method, "/get") {
		e.ActivityID, e.ActivityName = ocsfRead, "Read"
	}
	e.TypeUID = ocsfClass*100 + e.ActivityID
	e.API = ocsfThing{
		"operation": cmp.Or(r.Tool, r.Method, string(r.Kind)), "group": ocsfThing{"name": string(r.Kind)},
		"service": ocsfThing{"name": r.Server}.filled(), "request": ocsfThing{"uid": cmp.Or(r.ID, r.MessageID)}.filled(),
	}.filled()
	if e.ActionID == ocsfDenied {
		e.API["response"] = ocsfThing{"error": cmp.Or(r.Gate, r.Verdict, string(r.Kind)), "message": r.Reason}.filled()
	}
	e.Source, e.Destination = ocsfThing{"svc_name": cmp.Or(r.Agent, "thoughtgated")}, ocsfThing{"svc_name": r.Server}.filled()
	if r.Server != "" && r.Direction == "server_to_agent" {
		e.Source, e.Destination = e.Destination, e.Source
	}
	if r.Tool != "" {
		e.Resources = []ocsfThing{{"name": r.Tool, "type": cmp.Or(r.Method, string(r.Kind))}}
	}
}

// judged sets the verdict and the severity.
func (e *ocsfEvent) judged(r *record.Record) {
	e.SeverityID, e.Status = ocsfInformational, r.Verdict
	set := func(status, action, disposition, severity int) {
		e.StatusID, e.ActionID, e.DispositionID, e.SeverityID = status, action, disposition, severity
	}
	switch r.Verdict {
	case "":
		set(0, ocsfObserved, ocsfLogged, ocsfInformational)
	case "forward", "ok":
		set(ocsfSuccess, ocsfAllowed, ocsfLetThrough, ocsfInformational)
	case "approved", "accepted":
		set(ocsfSuccess, ocsfAllowed, ocsfApproved, ocsfInformational)
	case record.Hold, record.Park, "held":
		set(ocsfOther, ocsfObserved, ocsfDelayed, ocsfLow)
	case record.Deny:
		set(ocsfFailure, ocsfDenied, ocsfBlocked, ocsfMedium)
	case "rejected", "expired", "withdrawn":
		set(ocsfFailure, ocsfDenied, ocsfRejected, ocsfLow)
	default:
		set(ocsfOther, ocsfObserved, ocsfLogged, ocsfLow)
	}
	if r.Kind == record.KindDenied || r.Kind == record.KindRefused {
		set(ocsfFailure, ocsfDenied, ocsfBlocked, ocsfMedium)
	}
	if r.Kind == record.KindPresence && (r.Verdict == "wrong" || r.Verdict == "locked") {
		set(ocsfFailure, ocsfDenied, ocsfBlocked, ocsfMedium)
	}
	if r.Would != "" { // forwarded, but production would not have
		e.ActionID, e.DispositionID, e.SeverityID = ocsfObserved, ocsfLogged, ocsfLow
	}
}
