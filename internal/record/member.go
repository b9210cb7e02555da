package record

// member reads the value of the member whose name was just read into its field.
func (c *cursor) member(r *Record) {
	if text := r.text(string(c.name)); text != nil {
		*text = c.text()
		return
	}
	switch string(c.name) {
	case "v":
		r.V = int(c.number())
	case "seq":
		r.Seq = c.number()
	case "time":
		r.Time = c.time()
	case "kind":
		r.Kind = Kind(c.text())
	case "call":
		r.Call = c.number()
	case "through":
		r.Through = c.number()
	case "policies":
		r.Policies = c.list()
	case "facts":
		r.Facts = c.list()
	case "extensions":
		r.Extensions = c.list()
	case "auto_approved":
		r.Auto = c.bool()
	case "forwarded":
		r.Forwarded = c.bool()
	case "parked":
		r.Parked = c.bool()
	case "peer":
		r.Peer = c.peer()
	case "latency_us":
		r.LatencyUS = c.signed()
	default:
		c.skip()
	}
}

// text returns the field of r that holds the text of a member, nil when the
// member is not text or not known.
func (r *Record) text(name string) *string {
	switch name {
	case "prev":
		return &r.Prev
	case "log":
		return &r.Log
	case "attachment":
		return &r.Attachment
	case "id":
		return &r.ID
	case "session":
		return &r.Session
	case "agent":
		return &r.Agent
	case "server":
		return &r.Server
	case "launch":
		return &r.Launch
	case "answerer":
		return &r.Answerer
	case "direction":
		return &r.Direction
	case "method":
		return &r.Method
	case "tool":
		return &r.Tool
	case "message_id":
		return &r.MessageID
	case "verdict":
		return &r.Verdict
	}
	return r.verdictText(name)
}

// verdictText is text for the members that say more of a verdict.
func (r *Record) verdictText(name string) *string {
	switch name {
	case "would":
		return &r.Would
	case "gate":
		return &r.Gate
	case "rule":
		return &r.Rule
	case "profile":
		return &r.Profile
	case "reason":
		return &r.Reason
	case "approval":
		return &r.Approval
	case "grant":
		return &r.Grant
	case "decider":
		return &r.Decider
	case "surface":
		return &r.Surface
	case "approver":
		return &r.Approver
	case "level":
		return &r.Level
	case "set":
		return &r.Set
	case "digest":
		return &r.Digest
	case "values":
		return &r.Values
	}
	return nil
}
