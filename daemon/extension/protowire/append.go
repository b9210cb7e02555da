package protowire

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Append implements [wire.Dialect]. It fails for a method that this wire doesn't
// have, for a body with a member that the .proto file doesn't, and for what would
// be past wire.MaxMessage.
func (Dialect) Append(dst []byte, m *wire.Message) ([]byte, error) {
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
	case m.Kind == wire.Notification && tells(numbers[m.Method]):
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
		return nil, fmt.Errorf("the protobuf wire has no message %q of kind %d", m.Method, m.Kind)
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
		return nil, fmt.Errorf("write %s %s: %d bytes; the most is %d", m.Kind, m.Method, len(dst)-before, wire.MaxMessage)
	}
	return dst, nil
}

// theirID reads the id of a request of the other side.
func theirID(id string) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err == nil {
		_, err = asked(n)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no id of a request", id)
	}
	return n, nil
}

// fill puts what text says into the field of f with that number.
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
