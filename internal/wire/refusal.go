package wire

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC that a refusal has.
const (
	CodeParse         = -32700 // not JSON that all readers read alike
	CodeInvalid       = -32600 // not one message of JSON-RPC
	CodeInvalidParams = -32602 // a message with params that nothing can be judged by
)

// Refusal says why a line does not cross. It is an error.
type Refusal struct {
	// Reason is short, lower case, and the same for every line with that
	// fault: it holds nothing that was taken from the line.
	Reason string

	// Code is the JSON-RPC code of the answer, if there is to be one.
	Code int

	// ID is the raw id, when the line holds exactly one that can be read.
	// It is absent when the line is an array, or no object at all.
	ID Span

	// Answer reports whether the line is a request that should be answered
	// under ID. It must not be when a request with that id is open: the error
	// would be read as the answer to that one. When Answer is false and there
	// is an ID, the line may have been meant as the answer to a request.
	Answer bool

	// Shapeless reports the one fault that the development profile lets pass:
	// a JSON-RPC object without method, id, result and error.
	Shapeless bool
}

func (r *Refusal) Error() string { return r.Reason }

// faults found in reading. They become refusals once the id has been looked for.
var (
	errBatch        = fault(KindBatch, CodeInvalid, "a batch (JSON array): MCP has none since 2025-06-18")
	errNotObject    = fault(KindJSON, CodeInvalid, "not a JSON object")
	errTrailing     = fault(KindLineBreak, CodeParse, "more than one JSON value on a line")
	errBareCR       = fault(KindLineBreak, CodeParse, "a carriage return inside the line")
	errLineBreak    = fault(KindLineBreak, CodeParse, "a line break inside the line")
	errUTF8         = fault(KindEncoding, CodeParse, "invalid UTF-8")
	errSurrogate    = fault(KindEncoding, CodeParse, "a lone surrogate escape")
	errDuplicate    = fault(KindJSON, CodeParse, "a member name that comes twice")
	errCut          = fault(KindJSON, CodeParse, "cut short")
	errSyntax       = fault(KindJSON, CodeParse, "not JSON")
	errDepth        = fault(KindTooLarge, CodeInvalid, "nested too deep")
	errMembers      = fault(KindTooLarge, CodeInvalid, "an object with too many members")
	errTwin         = fault(KindJSON, CodeInvalid, "a member name that some readers take for another")
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

// Kinds of reasons for which a line does not cross, for those who count them.
const (
	KindJSON       = "json"       // no JSON that all readers read alike
	KindEncoding   = "encoding"   // no UTF-8
	KindLineBreak  = "line_break" // a line that some readers take for several
	KindTooLarge   = "too_large"
	KindBatch      = "batch"
	KindVersion    = "version"    // of JSON-RPC
	KindShape      = "shape"      // JSON that is no message
	KindUnexpected = "unexpected" // a message that has no place here, as an answer to nothing that was asked
)

// Kinds are all kinds there are.
func Kinds() []string {
	return []string{KindBatch, KindEncoding, KindJSON, KindLineBreak, KindShape, KindTooLarge, KindUnexpected, KindVersion}
}

var kinds = map[string]string{} // by reason

// KindOf is the kind of the reason of a refusal. One that is none of this package
// was found in a message that could be read: KindUnexpected.
func KindOf(reason string) string {
	if kind, ok := kinds[reason]; ok {
		return kind
	}
	return KindUnexpected
}

// faultOf turns what the tokenizer says into one of the faults above.
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
	// The tokenizer has no sentinels for the rest. Only its innermost error
	// is looked at: the others quote the line.
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
