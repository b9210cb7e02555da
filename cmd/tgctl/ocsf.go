package main

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// The Open Cybersecurity Schema Framework, 1.5.0: what records become for systems
// that collect events of many products. Each is an event of the class API Activity
// with the profile security_control; a test holds them against what the class asks
// for.
const (
	ocsfVersion  = "1.5.0"
	ocsfCategory = 6    // Application Activity
	ocsfClass    = 6003 // API Activity
)

// Values of enumerations of the schema, as far as records have them.
const (
	ocsfRead  = 2  // activity_id
	ocsfOther = 99 // of any

	ocsfInformational, ocsfLow, ocsfMedium = 1, 2, 3 // severity_id

	ocsfSuccess, ocsfFailure = 1, 2 // status_id

	ocsfAllowed, ocsfDenied, ocsfObserved = 1, 2, 3 // action_id

	ocsfLetThrough, ocsfBlocked, ocsfApproved, ocsfDelayed, ocsfLogged, ocsfRejected = 1, 2, 8, 14, 17, 25 // disposition_id
)

// ocsfEvent is one event. Members that a record says nothing of are left out.
type ocsfEvent struct {
	ActivityID    int            `json:"activity_id"`
	ActivityName  string         `json:"activity_name"`
	CategoryUID   int            `json:"category_uid"`
	CategoryName  string         `json:"category_name"`
	ClassUID      int            `json:"class_uid"`
	ClassName     string         `json:"class_name"`
	TypeUID       int            `json:"type_uid"`
	Time          int64          `json:"time"` // milliseconds of the Unix epoch
	SeverityID    int            `json:"severity_id"`
	StatusID      int            `json:"status_id,omitempty"`
	Status        string         `json:"status,omitempty"`
	ActionID      int            `json:"action_id,omitempty"`
	DispositionID int            `json:"disposition_id,omitempty"`
	Duration      int64          `json:"duration,omitempty"` // milliseconds
	Message       string         `json:"message,omitempty"`
	Metadata      ocsfMetadata   `json:"metadata"`
	Actor         ocsfActor      `json:"actor"`
	API           ocsfAPI        `json:"api"`
	Source        ocsfEndpoint   `json:"src_endpoint"`
	Destination   *ocsfEndpoint  `json:"dst_endpoint,omitempty"`
	Resources     []ocsfResource `json:"resources,omitempty"`
	Policy        *ocsfPolicy    `json:"policy,omitempty"`
	RawData       string         `json:"raw_data"` // the record as it is stored
	Unmapped      map[string]any `json:"unmapped,omitempty"`
}

type ocsfMetadata struct {
	Version     string      `json:"version"`
	Product     ocsfProduct `json:"product"`
	Profiles    []string    `json:"profiles"`
	LogName     string      `json:"log_name,omitempty"`
	LogVersion  string      `json:"log_version"`
	Sequence    uint64      `json:"sequence"`
	UID         string      `json:"uid"`
	Correlation string      `json:"correlation_uid,omitempty"`
}

type ocsfProduct struct {
	Name    string `json:"name"`
	Vendor  string `json:"vendor_name"`
	Version string `json:"version,omitempty"`
}

type ocsfActor struct {
	App     string       `json:"app_name"`
	Session *ocsfSession `json:"session,omitempty"`
	Invoked string       `json:"invoked_by,omitempty"`
}

type ocsfSession struct {
	UID string `json:"uid"`
}

type ocsfAPI struct {
	Operation string        `json:"operation"`
	Group     *ocsfNamed    `json:"group,omitempty"`
	Service   *ocsfNamed    `json:"service,omitempty"`
	Request   *ocsfRequest  `json:"request,omitempty"`
	Response  *ocsfResponse `json:"response,omitempty"`
}

type ocsfNamed struct {
	Name string `json:"name"`
}

type ocsfRequest struct {
	UID string `json:"uid"`
}

type ocsfResponse struct {
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
}

type ocsfEndpoint struct {
	Service string `json:"svc_name"`
}

type ocsfResource struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type ocsfPolicy struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Applied bool   `json:"is_applied"`
}

// ocsf turns a record into an event; line is the record as it is stored, log the
// id of its log, and build the version of this program.
func ocsf(r *record.Record, line []byte, log, build string) ([]byte, error) {
	e := ocsfEvent{
		CategoryUID: ocsfCategory, CategoryName: "Application Activity", ClassUID: ocsfClass, ClassName: "API Activity",
		Time: r.Time.UnixMilli(), Duration: time.Duration(r.LatencyUS * int64(time.Microsecond)).Milliseconds(),
		Message: cmp.Or(r.Reason, strings.TrimSpace(string(r.Kind)+" "+r.Verdict)), RawData: string(line),
		Metadata: ocsfMetadata{
			Version: ocsfVersion, Product: ocsfProduct{"ThoughtGate", "ThoughtGate", build}, Profiles: []string{"security_control"},
			LogName: log, LogVersion: strconv.Itoa(r.V), Sequence: r.Seq, UID: log + "/" + strconv.FormatUint(r.Seq, 10),
			Correlation: cmp.Or(r.ID, r.Approval),
		},
		Actor: ocsfActor{App: cmp.Or(r.Agent, "thoughtgated"), Invoked: r.Decider},
	}
	e.does(r)
	e.judged(r)
	if r.Session != "" {
		e.Actor.Session = &ocsfSession{r.Session}
	}
	if rule := cmp.Or(strings.Join(r.Policies, ", "), r.Rule); rule != "" {
		e.Policy = &ocsfPolicy{Name: rule, Version: r.Set, Applied: r.Would == ""}
	}
	e.Unmapped = unmapped(r)
	return json.Marshal(e)
}

// does says what was done by whom to whom.
func (e *ocsfEvent) does(r *record.Record) {
	e.ActivityID, e.ActivityName = ocsfOther, cmp.Or(r.Method, string(r.Kind))
	if strings.HasSuffix(r.Method, "/read") || strings.HasSuffix(r.Method, "/list") || strings.HasSuffix(r.Method, "/get") {
		e.ActivityID, e.ActivityName = ocsfRead, "Read"
	}
	e.TypeUID = ocsfClass*100 + e.ActivityID
	e.API = ocsfAPI{Operation: cmp.Or(r.Tool, r.Method, string(r.Kind)), Group: &ocsfNamed{string(r.Kind)}}
	e.Source = ocsfEndpoint{cmp.Or(r.Agent, "thoughtgated")}
	if r.Server != "" {
		e.API.Service = &ocsfNamed{r.Server}
		e.Destination = &ocsfEndpoint{r.Server}
		if r.Direction == "server_to_agent" {
			e.Source, e.Destination = *e.Destination, &e.Source
		}
	}
	if id := cmp.Or(r.ID, r.MessageID); id != "" {
		e.API.Request = &ocsfRequest{id}
	}
	if r.Tool != "" {
		e.Resources = []ocsfResource{{r.Tool, cmp.Or(r.Method, string(r.Kind))}}
	}
}

// judged says what was decided, and how grave that is.
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
	case "hold", "held":
		set(ocsfOther, ocsfObserved, ocsfDelayed, ocsfLow)
	case "deny":
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
	if r.Would != "" { // it was let through, and would not have been
		e.ActionID, e.DispositionID, e.SeverityID = ocsfObserved, ocsfLogged, ocsfLow
	}
	if e.ActionID == ocsfDenied {
		e.API.Response = &ocsfResponse{Error: cmp.Or(r.Gate, r.Verdict, string(r.Kind)), Message: r.Reason}
	}
}

// unmapped are the members that the schema has no place for.
func unmapped(r *record.Record) map[string]any {
	all := map[string]any{}
	for name, text := range map[string]string{
		"attachment": r.Attachment, "launch": r.Launch, "would": r.Would, "gate": r.Gate, "profile": r.Profile,
		"approval": r.Approval, "surface": r.Surface, "approver": r.Approver, "level": r.Level, "digest": r.Digest, "rule": r.Rule, "prev": r.Prev,
	} {
		if text != "" {
			all[name] = text
		}
	}
	if len(r.Facts) > 0 {
		all["facts"] = r.Facts
	}
	if len(r.Extensions) > 0 {
		all["extensions"] = r.Extensions
	}
	return all
}
