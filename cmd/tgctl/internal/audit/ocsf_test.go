package audit

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

func TestVerdictsAsEvents(t *testing.T) {
	for _, test := range []struct {
		r                           record.Record
		status, action, disposition int
	}{
		{record.Record{Kind: record.KindCall, Verdict: "forward"}, ocsfSuccess, ocsfAllowed, ocsfLetThrough},
		{record.Record{Kind: record.KindCall, Verdict: "deny"}, ocsfFailure, ocsfDenied, ocsfBlocked},
		{record.Record{Kind: record.KindCall, Verdict: "hold"}, ocsfOther, ocsfObserved, ocsfDelayed},
		{record.Record{Kind: record.KindCall, Verdict: "forward", Would: "WOULD_BLOCK"}, ocsfSuccess, ocsfObserved, ocsfLogged},
		{record.Record{Kind: record.KindDecision, Verdict: "approved"}, ocsfSuccess, ocsfAllowed, ocsfApproved},
		{record.Record{Kind: record.KindDecision, Verdict: "rejected"}, ocsfFailure, ocsfDenied, ocsfRejected},
		{record.Record{Kind: record.KindDenied}, ocsfFailure, ocsfDenied, ocsfBlocked},
		{record.Record{Kind: record.KindPresence, Verdict: "wrong"}, ocsfFailure, ocsfDenied, ocsfBlocked},
		{record.Record{Kind: record.KindStart}, 0, ocsfObserved, ocsfLogged},
	} {
		var e ocsfEvent
		e.judged(&test.r)
		if e.StatusID != test.status || e.ActionID != test.action || e.DispositionID != test.disposition {
			t.Errorf("%s %s %s: %d, %d, %d", test.r.Kind, test.r.Verdict, test.r.Would, e.StatusID, e.ActionID, e.DispositionID)
		}
	}
}
