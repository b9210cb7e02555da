package protowire

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Dialect is the dialect of frames of thoughtgate.extension.v1, for both sides. It has no
// state: the id of a frame includes the method, so that the kind of an answer can be checked.
// The side that sends a request knows it by the number from NewID, the side that receives it by
// the id of the frame.
type Dialect struct{}

var _ rpc.Dialect = Dialect{}

// cancelMethod is the method of the notification that cancels a request. It is not among
// methods, since it has no body.
const cancelMethod = "cancel"

// Decode implements [rpc.Dialect]. The body is a copy.
func (Dialect) Decode(frame []byte, m *rpc.Message) error {
	if len(frame) > wire.MaxMessage {
		return fmt.Errorf("a frame of %d bytes; the maximum is %d", len(frame), wire.MaxMessage)
	}
	if err := checkNoDuplicateFields(frame); err != nil {
		return err
	}
	var f pb.Frame
	if err := proto.Unmarshal(frame, &f); err != nil {
		return errors.New("not a frame: not a message of thoughtgate.extension.v1")
	}
	r := f.ProtoReflect()
	field := r.WhichOneof(body)
	if field == nil || len(r.GetUnknown()) > 0 {
		return errors.New("a frame without a body, or with an unknown field")
	}
	read, err := message(&f, field.Number(), r.Get(field).Message())
	if err != nil {
		return fmt.Errorf("read %s: %w", field.Name(), err)
	}
	if read.Cancels != "" {
		*m = read
		return nil
	}
	// Parse it again as the equivalent message of the other wire protocol.
	line, err := rpc.JSONRPC{}.Append(nil, &read)
	if err != nil {
		return fmt.Errorf("read %s: %w", field.Name(), err)
	}
	if err := (rpc.JSONRPC{}).Decode(line, m); err != nil {
		return fmt.Errorf("read %s: %w", field.Name(), err)
	}
	return nil
}

// checkNoDuplicateFields returns an error if a field of the frame occurs twice: some parsers use the last, some
// merge both.
func checkNoDuplicateFields(frame []byte) error {
	seen := map[protowire.Number]bool{}
	for len(frame) > 0 {
		number, kind, n := protowire.ConsumeTag(frame)
		if n < 0 {
			return fmt.Errorf("not a frame: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, frame[n:])
		if size < 0 {
			return fmt.Errorf("not a frame: %w", protowire.ParseError(size))
		}
		group := number
		if field := fields.ByNumber(number); field != nil && field.ContainingOneof() != nil {
			group = fieldError // a oneof can have one value only
		}
		if seen[group] {
			return errors.New("a frame with a duplicate field")
		}
		seen[group], frame = true, frame[n+size:]
	}
	return nil
}

// message converts said, the body of f, into a message as JSON-RPC has it.
func message(f *pb.Frame, number protoreflect.FieldNumber, said protoreflect.Message) (rpc.Message, error) {
	switch {
	case number == fieldCancel:
		return cancel(f, said)
	case isNotification(number):
		if f.Id != 0 {
			return rpc.Message{}, errors.New("a notification must not have an id")
		}
		text, err := appendMessage(nil, said)
		return rpc.Message{Kind: wire.Notification, Method: methods[number], Body: text}, err
	}
	of, err := asked(f.Id)
	switch {
	case err != nil:
		return rpc.Message{}, err
	case isRequest(number) && of != number:
		return rpc.Message{}, errors.New("its id is not that of a request of its kind")
	case isRequest(number):
		text, err := appendMessage(nil, said)
		return rpc.Message{Kind: wire.Request, ID: strconv.FormatUint(f.Id, 10), Method: methods[number], Body: text}, err
	}
	m := rpc.Message{Kind: wire.Result, ID: strconv.FormatUint(f.Id>>8, 10)}
	switch {
	case number == fieldError:
		m.Kind = wire.Error
		m.Fault, err = fault(f.GetError())
	case of+answerTo != number:
		err = fmt.Errorf("it is an answer to %s", methods[of])
	default:
		m.Body, err = appendMessage(nil, said)
	}
	return m, err
}

// asked returns the field number in the last byte of an id.
func asked(id uint64) (protoreflect.FieldNumber, error) {
	number := protoreflect.FieldNumber(id & 0xff)
	if id>>8 == 0 || id > math.MaxInt64 || !isRequest(number) {
		return 0, errors.New("it lacks the id of a request")
	}
	return number, nil
}

func cancel(f *pb.Frame, said protoreflect.Message) (rpc.Message, error) {
	id := f.GetCancel().GetId()
	if _, err := asked(id); err != nil || f.Id != 0 || len(said.GetUnknown()) > 0 {
		return rpc.Message{}, errors.New("it names no request, or has its own id")
	}
	return rpc.Message{Kind: wire.Notification, Method: cancelMethod, Cancels: strconv.FormatUint(id, 10)}, nil
}

func fault(e *pb.Error) (*rpc.Fault, error) {
	if len(e.ProtoReflect().GetUnknown()) > 0 {
		return nil, errUnknown
	}
	f := &rpc.Fault{Code: e.Code, Message: e.Message}
	if len(e.Data) > 0 {
		f.Data = e.Data
		return f, checkJSON(e.Data)
	}
	return f, nil
}

// NewID implements [rpc.Dialect]: 1, 2, 3.
func (Dialect) NewID(n uint64) string { return strconv.FormatUint(n, 10) }

// Cancel implements [rpc.Dialect]. A handshake can't be cancelled.
func (Dialect) Cancel(id, method string) (rpc.Message, bool) {
	full, err := requestID(id, numbers[method])
	if err != nil || method == "initialize" {
		return rpc.Message{}, false
	}
	return rpc.Message{Kind: wire.Notification, Method: cancelMethod, Cancels: strconv.FormatUint(full, 10)}, true
}

// requestID returns the id of a frame for the request that its sender numbered id.
func requestID(id string, number protoreflect.FieldNumber) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64>>8 || !isRequest(number) {
		return 0, fmt.Errorf("%q is not the number of a request", id)
	}
	return n<<8 | uint64(number), nil
}

// Append implements [rpc.Dialect]. It returns an error for a method that the .proto file does
// not have, for a body with a member that it does not have, and for a frame longer than
// wire.MaxMessage.
func (Dialect) Append(dst []byte, m *rpc.Message) ([]byte, error) {
	var f pb.Frame
	var err error
	switch {
	case m.Kind == wire.Request:
		if f.Id, err = requestID(m.ID, numbers[m.Method]); err == nil {
			err = fill(&f, numbers[m.Method], m.Body)
		}
	case m.Kind == wire.Notification && m.Cancels != "":
		var id uint64
		if id, err = theirID(m.Cancels); err == nil {
			f.Body = &pb.Frame_Cancel{Cancel: &pb.Cancel{Id: id}}
		}
	case m.Kind == wire.Notification && isNotification(numbers[m.Method]):
		err = fill(&f, numbers[m.Method], m.Body)
	case m.Kind == wire.Result:
		if f.Id, err = theirID(m.ID); err == nil {
			err = fill(&f, protoreflect.FieldNumber(f.Id&0xff)+answerTo, m.Body)
		}
	case m.Kind == wire.Error && m.Fault != nil:
		if f.Id, err = theirID(m.ID); err == nil {
			f.Body = &pb.Frame_Error{Error: &pb.Error{Code: m.Fault.Code, Message: m.Fault.Message, Data: m.Fault.Data}}
			if len(m.Fault.Data) > 0 {
				err = checkJSON(m.Fault.Data)
			}
		}
	default:
		return nil, fmt.Errorf("the protobuf protocol has no message %q of kind %d", m.Method, m.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", m.Kind, m.Method, err)
	}
	before := len(dst)
	dst, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, &f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("write %s %s: text that is not UTF-8", m.Kind, m.Method)
	case len(dst)-before > wire.MaxMessage:
		return nil, fmt.Errorf("write %s %s: %d bytes; the maximum is %d", m.Kind, m.Method, len(dst)-before, wire.MaxMessage)
	}
	return dst, nil
}

// theirID parses the id of a request of the other side.
func theirID(id string) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err == nil {
		_, err = asked(n)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not the id of a request", id)
	}
	return n, nil
}

// fill sets the field of f with that number to the content of text.
func fill(f *pb.Frame, number protoreflect.FieldNumber, text []byte) error {
	if text == nil {
		text = []byte("{}")
	}
	r := f.ProtoReflect()
	field := fields.ByNumber(number)
	said := r.NewField(field)
	if err := readMessage(text, said.Message()); err != nil {
		return err
	}
	r.Set(field, said)
	return nil
}
