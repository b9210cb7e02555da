package wire

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON-RPC error codes of refusals.
const (
	CodeParse         = -32700 // not JSON that all readers read alike
	CodeInvalid       = -32600 // not one JSON-RPC message
	CodeInvalidParams = -32602 // a message whose params can't be judged
)

// Refusal says why a line is refused. It is an error.
type Refusal struct {
	// Reason is short, lower case, and the same for every line with that fault: it
	// contains nothing from the line.
	Reason string

	// Code is the JSON-RPC code of the error answer, if one is sent.
	Code int

	// ID is the raw id if the line contains exactly one that can be read. It is absent if
	// the line is an array or not an object.
	ID Span

	// Answer reports whether the line is a request that should be answered under ID. It
	// must not be answered while another request with that id is open: the error would be
	// read as the answer to that one. If Answer is false and ID is present, the line may
	// have been meant as the answer to a request.
	Answer bool

	// Shapeless reports the only fault that the development profile tolerates: a JSON-RPC
	// object without method, id, result and error.
	Shapeless bool
}

func (r *Refusal) Error() string { return r.Reason }

// Faults found by the reader. They become refusals once the id was looked for.
var (
	errBatch        = fault(KindBatch, CodeInvalid, "a batch (JSON array): MCP has none since 2025-06-18")
	errNotObject    = fault(KindJSON, CodeInvalid, "not a JSON object")
	errTrailing     = fault(KindLineBreak, CodeParse, "more than one JSON value on a line")
	errBareCR       = fault(KindLineBreak, CodeParse, "a carriage return inside the line")
	errLineBreak    = fault(KindLineBreak, CodeParse, "a line break inside the line")
	errUTF8         = fault(KindEncoding, CodeParse, "invalid UTF-8")
	errSurrogate    = fault(KindEncoding, CodeParse, "a lone surrogate escape")
	errDuplicate    = fault(KindJSON, CodeParse, "a duplicate member name")
	errCut          = fault(KindJSON, CodeParse, "cut short")
	errSyntax       = fault(KindJSON, CodeParse, "not JSON")
	errDepth        = fault(KindTooLarge, CodeInvalid, "nested too deep")
	errMembers      = fault(KindTooLarge, CodeInvalid, "an object with too many members")
	errTwin         = fault(KindJSON, CodeInvalid, "a member name that some parsers confuse with another")
	errVersion      = fault(KindVersion, CodeInvalid, `jsonrpc is not "2.0"`)
	errID           = fault(KindShape, CodeInvalid, "an id that is neither a string of at most 1024 bytes nor an integer of 64 bits")
	errMethod       = fault(KindShape, CodeInvalid, "a method that is not a name in visible ASCII")
	errParams       = fault(KindShape, CodeInvalidParams, "params that are not an object")
	errArguments    = fault(KindShape, CodeInvalidParams, "arguments that are not an object")
	errMetaVersion  = fault(KindShape, CodeInvalidParams, "a protocol version that is not a string")
	errErrorShape   = fault(KindShape, CodeInvalid, "an error without an integer code and a string message")
	errMixed        = fault(KindShape, CodeInvalid, "members of a request and of an answer together")
	errBoth         = fault(KindShape, CodeInvalid, "result and error together")
	errNeither      = fault(KindShape, CodeInvalid, "an id with neither a method nor a result nor an error")
	errResultNoID   = fault(KindShape, CodeInvalid, "a result without an id")
	errErrorNoID    = fault(KindShape, CodeInvalid, "an error without an id")
	errShapeless    = shapeless(fault(KindShape, CodeInvalid, "neither request, notification nor answer"))
	errTooLong      = fault(KindTooLarge, CodeInvalid, "longer than 10 MiB")
	errInsideString = fault(KindLineBreak, CodeParse, "inside a string that an earlier line began")
	errEmptyLine    = fault(KindJSON, CodeParse, "empty")
)

func fault(kind string, code int, reason string) *Refusal {
	kinds[reason] = kind
	return &Refusal{Code: code, Reason: reason}
}

func shapeless(r *Refusal) *Refusal {
	r.Shapeless = true
	return r
}

// Kinds of refusal reasons, for counting.
const (
	KindJSON       = "json"       // not JSON that all readers read alike
	KindEncoding   = "encoding"   // not UTF-8
	KindLineBreak  = "line_break" // a line that some readers split
	KindTooLarge   = "too_large"
	KindBatch      = "batch"
	KindVersion    = "version"    // of JSON-RPC
	KindShape      = "shape"      // JSON that is not a message
	KindUnexpected = "unexpected" // a message that has no place here, such as an answer to no request
)

// Kinds returns all kinds, sorted.
func Kinds() []string {
	return []string{KindBatch, KindEncoding, KindJSON, KindLineBreak, KindShape, KindTooLarge, KindUnexpected, KindVersion}
}

var kinds = map[string]string{} // by reason

// KindOf returns the kind of the reason of a refusal. A reason from another package
// belongs to a message that could be read; its kind is KindUnexpected.
func KindOf(reason string) string {
	if kind, ok := kinds[reason]; ok {
		return kind
	}
	return KindUnexpected
}

// faultOf converts an error of the tokenizer to one of the faults above.
func faultOf(err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errDuplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errCut
	case errors.Is(err, io.EOF):
		return errEmptyLine
	}
	// The tokenizer has no sentinels for the rest. Only its innermost error is examined:
	// the others quote the line.
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) && syntax.Err != nil {
		err = syntax.Err
	}
	switch text := err.Error(); {
	case strings.Contains(text, "invalid UTF-8"):
		return errUTF8
	case strings.Contains(text, "surrogate"):
		return errSurrogate
	case strings.Contains(text, "exceeded max depth"):
		return errDepth
	}
	return errSyntax
}
