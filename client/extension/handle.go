package extension

import (
	"context"
	"errors"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// errNotOffered is the error for requests for which Handler has no function.
var errNotOffered = errors.New("this extension does not do that")

// handle carries out request f and sets the answer in reply.
func (s *server) handle(ctx context.Context, f, reply *pb.Frame) error {
	switch asked := f.Body.(type) {
	case *pb.Frame_Hello:
		info, err := s.greet(ctx, asked.Hello)
		reply.Body = &pb.Frame_HelloAnswer{HelloAnswer: info}
		return err
	case *pb.Frame_Before:
		answer, err := s.before(ctx, asked.Before)
		reply.Body = &pb.Frame_BeforeAnswer{BeforeAnswer: answer}
		return err
	case *pb.Frame_After:
		answer, err := s.after(ctx, asked.After)
		reply.Body = &pb.Frame_AfterAnswer{AfterAnswer: answer}
		return err
	case *pb.Frame_Tool:
		result, err := s.tool(ctx, asked.Tool)
		reply.Body = &pb.Frame_ToolAnswer{ToolAnswer: &pb.ToolAnswer{Result: result}}
		return err
	case *pb.Frame_Complete:
		said, err := s.complete(ctx, asked.Complete)
		reply.Body = &pb.Frame_CompleteAnswer{CompleteAnswer: said}
		return err
	case *pb.Frame_Stream:
		said, err := s.stream(ctx, asked.Stream)
		reply.Body = &pb.Frame_StreamAnswer{StreamAnswer: said}
		return err
	case *pb.Frame_Command:
		exit, err := s.command(ctx, asked.Command)
		reply.Body = &pb.Frame_CommandAnswer{CommandAnswer: &pb.CommandAnswer{ExitCode: exit}}
		return err
	case *pb.Frame_Shutdown:
		reply.Body = &pb.Frame_ShutdownAnswer{ShutdownAnswer: &pb.ShutdownAnswer{}}
		return nil
	}
	return errNotOffered
}

// greet answers the handshake. A gate with another version gets our version and does not use
// the extension.
func (s *server) greet(ctx context.Context, hello *pb.Hello) (*pb.Info, error) {
	s.host.greeted(hello)
	info := &pb.Info{ProtocolVersion: ProtocolVersion, Capabilities: &pb.Capabilities{Capabilities: s.handler.Capabilities}}
	for _, tool := range s.handler.Tools {
		schema := tool.InputSchema
		if len(schema) == 0 {
			schema = []byte(`{"type":"object"}`)
		}
		info.Capabilities.Tools = append(info.Capabilities.Tools, &pb.ToolSpec{Name: tool.Name, Description: tool.Description, InputSchema: schema})
	}
	for _, p := range s.handler.Providers {
		info.Capabilities.Providers = append(info.Capabilities.Providers, &pb.ProviderSpec{
			Id: p.ID, DisplayName: p.DisplayName, Description: p.Description, Models: p.Models, ConfigSchema: p.ConfigSchema,
		})
	}
	if hello.ProtocolVersion != ProtocolVersion || s.handler.Start == nil {
		return info, nil
	}
	if err := s.handler.Start(ctx, s.host); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return info, nil
}

func (s *server) before(ctx context.Context, asked *pb.BeforeRequest) (*pb.BeforeAnswer, error) {
	if s.handler.Before == nil {
		return nil, errNotOffered
	}
	a, err := checked(s.handler.Before(ctx, asked.Call))
	if err != nil {
		return nil, err
	}
	return &pb.BeforeAnswer{Action: a.action, Arguments: a.with, Reason: a.why()}, nil
}

func (s *server) after(ctx context.Context, asked *pb.AfterRequest) (*pb.AfterAnswer, error) {
	if s.handler.After == nil {
		return nil, errNotOffered
	}
	a, err := checked(s.handler.After(ctx, asked.Call, asked.Result))
	if err != nil {
		return nil, err
	}
	return &pb.AfterAnswer{Action: a.action, Result: a.with, Reason: a.why()}, nil
}

// checked returns an error for the zero Answer, which can't be sent.
func checked(a Answer, err error) (Answer, error) {
	if err == nil && a.action == pb.Action_ACTION_UNSPECIFIED {
		err = errors.New("the handler gave no answer")
	}
	return a, err
}

// why returns the reason of an answer that has one.
func (a Answer) why() *string {
	if a.action != pb.Action_ACTION_BLOCK {
		return nil
	}
	return &a.reason
}
