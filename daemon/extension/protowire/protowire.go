// Package protowire is the second wire of extensions: what they say when they
// speak protobuf.
//
// Inside the daemon a message has a method and a body of JSON, whatever wire it
// came over. [Dialect] is the place where the two meet: a frame of
// thoughtgate.extension.v1 becomes such a message, and a message such a frame.
// Nothing else is decided here. What a body has to hold is said once, by who
// reads the bodies of both wires.
//
// The table between the two is the .proto file itself: a field has the name of
// the member that it stands for, an enum says in capitals what the member says
// in small letters, and bytes are JSON that is carried over as it is. So a field
// that is added there is translated without a line here.
//
// A frame is read as strictly as a line is: no field that is not known and none
// twice, an id that fits the request, JSON that has no second reading. What
// comes out was read once more as the message of JSON-RPC that it could have
// been, so that neither wire lets through what the other would refuse.
package protowire

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// methods names what the fields of a Frame ask or tell.
var methods = map[protoreflect.FieldNumber]string{
	10: "initialize", 11: "hook.before", 12: "hook.after", 13: "tool.call",
	14: "provider.complete", 15: "provider.stream", 16: "command.invoke", 17: "shutdown",
	50: "config.changed",
	60: "memory.append", 61: "memory.query", 62: "config.get", 63: "config.set", 64: "config.subscribe",
	100: "provider.stream.event", 101: "command.output",
	102: "task.start", 103: "task.update", 104: "task.log", 105: "task.done",
}

const (
	fieldError  = 2
	fieldCancel = 3

	// answerTo is what has to be added to the number of a request to have that
	// of its answer.
	answerTo = 20
)

// numbers is methods, turned round.
var numbers = func() map[string]protoreflect.FieldNumber {
	turned := map[string]protoreflect.FieldNumber{}
	for number, method := range methods {
		turned[method] = number
	}
	return turned
}()

var (
	fields = (*pb.Frame)(nil).ProtoReflect().Descriptor().Fields()
	body   = (*pb.Frame)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body")
)

// asks reports whether number is a request: something that has an answer.
func asks(number protoreflect.FieldNumber) bool {
	return methods[number] != "" && fields.ByNumber(number+answerTo) != nil
}

// tells reports whether number is something that has no answer.
func tells(number protoreflect.FieldNumber) bool {
	return methods[number] != "" && !asks(number)
}

// whole is the one message whose JSON is that of its only field: what tools
// answer is MCP's, and has no name for itself.
var whole = proto.MessageName((*pb.ToolAnswer)(nil))
