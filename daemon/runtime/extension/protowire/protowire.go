// Package protowire is the protobuf wire protocol of extensions.
//
// Inside the daemon a message has a method and a JSON body, whatever its wire protocol.
// [Dialect] converts between frames of thoughtgate.extension.v1 and such messages, and does
// nothing else: what a body must hold is checked in one place for both wire protocols.
//
// The .proto file is the conversion table. A field has the name of the JSON member, an enum
// value is the JSON value in capitals, and bytes hold raw JSON. So a new field in the .proto
// file needs no code here.
//
// Decoding is as strict as that of JSON lines: no unknown field, no field twice, an id that
// fits the request, unambiguous JSON. The result is parsed again as the equivalent JSON-RPC
// message, so that neither wire protocol accepts what the other refuses.
package protowire

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// methods maps the fields of a Frame to methods.
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

	// answerTo is the difference between the field numbers of an answer and its request.
	answerTo = 20
)

// numbers is the inverse of methods.
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

// isRequest reports whether number is that of a request.
func isRequest(number protoreflect.FieldNumber) bool {
	return methods[number] != "" && fields.ByNumber(number+answerTo) != nil
}

// isNotification reports whether number is that of a notification.
func isNotification(number protoreflect.FieldNumber) bool {
	return methods[number] != "" && !isRequest(number)
}

// bareMessage is the one message whose JSON is that of its only field: the result of a tool, which is
// an object of MCP's.
var bareMessage = proto.MessageName((*pb.ToolAnswer)(nil))
