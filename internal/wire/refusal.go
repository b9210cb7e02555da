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
	errBatch        = fault(CodeInvalid, "a batch (JSON array): MCP has none since 2025-06-18")
	errNotObject    = fault(CodeInvalid, "not a JSON object")
	errTrailing     = fault(CodeParse, "more than one JSON value on a line")
	errBareCR       = fault(CodeParse, "a carriage return inside the line")
	errLineBreak    = fault(CodeParse, "a line break inside the line")
	errUTF8         = fault(CodeParse, "invalid UTF-8")
	errSurrogate    = fault(CodeParse, "a lone surrogate escape")
	errDuplicate    = fault(CodeParse, "a member name that comes twice")
	errCut          = fault(CodeParse, "cut short")
	errSyntax       = fault(CodeParse, "not JSON")
	errDepth        = fault(CodeInvalid, "nested too deep")
	errMembers      = fault(CodeInvalid, "an object with too many members")
	errTwin         = fault(CodeInvalid, "a member name that some readers take for another")
	errVersion      = fault(CodeInvalid, `jsonrpc is not "2.0"`)
	errID           = fault(CodeInvalid, "an id that is neither a string of at most 1024 bytes nor an integer of 64 bits")
	errMethod       = fault(CodeInvalid, "a method that is not a name in visible ASCII")
	errParams       = fault(CodeInvalidParams, "params that are not an object")
	errArguments    = fault(CodeInvalidParams, "arguments that are not an object")
	errMetaVersion  = fault(CodeInvalidParams, "a protocol version that is not a string")
	errErrorShape   = fault(CodeInvalid, "an error without an integer code and a string message")
	errMixed        = fault(CodeInvalid, "members of a request and of an answer together")
	errBoth         = fault(CodeInvalid, "result and error together")
	errNeither      = fault(CodeInvalid, "an id with neither a method nor a result nor an error")
	errResultNoID   = fault(CodeInvalid, "a result without an id")
	errErrorNoID    = fault(CodeInvalid, "an error without an id")
	errShapeless    = &Refusal{Code: CodeInvalid, Reason: "neither request, notification nor answer", Shapeless: true}
	errTooLong      = fault(CodeInvalid, "longer than 10 MiB")
	errInsideString = fault(CodeParse, "inside a string that an earlier line began")
	errEmptyLine    = fault(CodeParse, "empty")
)

func fault(code int, reason string) *Refusal { return &Refusal{Code: code, Reason: reason} }

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
