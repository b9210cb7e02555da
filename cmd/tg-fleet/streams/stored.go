package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of messages.
const (
	// Fetch is the header of a policy that lies elsewhere: the hex SHA-256 of its bytes,
	// by which it is found.
	Fetch = "Tg-Fetch"
	// Root is the header of a policy with the version of the newest root metadata.
	Root = "Tg-Root"
	// TTL is the header of a message that the engine removes after that many seconds.
	TTL = "Nats-TTL"

	expected   = "Nats-Expected-Last-Subject-Sequence"
	fromStream = "Nats-Stream"
	ofSubject  = "Nats-Subject"
	sequence   = "Nats-Sequence"
	status     = "Status"
)

var (
	// ErrNone is returned by Last if nothing is stored.
	ErrNone = errors.New("nothing is stored on that subject")
	// ErrTaken is returned by Put if another message was stored meanwhile, and for a
	// subject that takes one message only.
	ErrTaken = errors.New("another message is stored on that subject")
	// ErrRefused is returned by Put for a message that the stream does not take.
	ErrRefused = errors.New("the engine refuses the message")
)

// A Stored message is what a stream has on a subject.
type Stored struct {
	Subject string
	Seq     uint64 // of the stream; 0 if there is none
	Header  nats.Header
	Data    []byte
}

// request makes a request with [Retry].
func request(ctx context.Context, nc *nats.Conn, try time.Duration, msg *nats.Msg) (*nats.Msg, error) {
	var reply *nats.Msg
	err := Retry(ctx, Patience, try, func(ctx context.Context) error {
		var err error
		reply, err = nc.RequestMsgWithContext(ctx, msg)
		return err
	})
	return reply, err
}

// Last returns the last message on a subject of a stream.
func Last(ctx context.Context, nc *nats.Conn, stream, subject string) (Stored, error) {
	reply, err := request(ctx, nc, OneTry, &nats.Msg{Subject: Get(stream, subject)})
	if err != nil {
		return Stored{}, fmt.Errorf("ask the engine for the last message on %s: %w", subject, err)
	}
	return FromStream(reply, subject)
}

// FromStream returns the message that an answer of a stream has.
func FromStream(reply *nats.Msg, subject string) (Stored, error) {
	if code := reply.Header.Get(status); code == "404" {
		return Stored{}, ErrNone
	} else if code != "" {
		return Stored{}, fmt.Errorf("ask the engine for the last message on %s: status %.10q", subject, code)
	}
	seq, err := strconv.ParseUint(reply.Header.Get(sequence), 10, 64)
	if err != nil {
		return Stored{}, fmt.Errorf("ask the engine for the last message on %s: its answer has no sequence", subject)
	}
	return Stored{Subject: subject, Seq: seq, Header: reply.Header, Data: reply.Data}, nil
}

// Live returns the message that a stream has republished: subject is where it was stored.
// It reports false for any other message. An answer of the engine can be aimed at what a
// device subscribes to, and then the engine says from where it comes.
func Live(msg *nats.Msg, stream string) (Stored, bool) {
	from, of := msg.Header.Values(fromStream), msg.Header.Values(ofSubject)
	if len(from) != 1 || from[0] != stream || len(of) != 1 || "tg.live."+strings.TrimPrefix(of[0], "tg.") != msg.Subject {
		return Stored{}, false
	}
	seq, err := strconv.ParseUint(msg.Header.Get(sequence), 10, 64)
	return Stored{Subject: of[0], Seq: seq, Header: msg.Header, Data: msg.Data}, err == nil
}

// Put stores a message and returns its sequence. With last, the message is only stored if
// the last one on its subject has that sequence, 0 for none. After an error that is none
// of this package's, nobody knows whether it was stored.
func Put(ctx context.Context, nc *nats.Conn, msg *nats.Msg, last *uint64) (uint64, error) {
	if last != nil {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		msg.Header.Set(expected, strconv.FormatUint(*last, 10))
	}
	reply, err := request(ctx, nc, Patience, msg)
	if err != nil {
		return 0, fmt.Errorf("store a message on %s: %w", msg.Subject, err)
	}
	var answer struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return 0, fmt.Errorf("store a message on %s: the engine's answer: %w", msg.Subject, err)
	}
	switch {
	case answer.Error == nil && answer.Seq > 0:
		return answer.Seq, nil
	case answer.Error == nil:
		return 0, fmt.Errorf("store a message on %s: the engine's answer has no sequence", msg.Subject)
	case answer.Error.Code == codeWrongLast, answer.Error.Code == codeWrongLastConstant, answer.Error.Description == onePerSubject:
		return 0, fmt.Errorf("store a message on %s: %w", msg.Subject, ErrTaken)
	}
	return 0, fmt.Errorf("store a message on %s: %w: %.200q", msg.Subject, ErrRefused, answer.Error.Description)
}

// How the engine says that the last message is another one.
const (
	codeWrongLast         = 10071
	codeWrongLastConstant = 10164
	onePerSubject         = "maximum messages per subject exceeded"
)

// maxAll is how many messages All returns at most.
const maxAll = 1024

// All returns the last message on each subject that matches a pattern.
func All(ctx context.Context, nc *nats.Conn, stream, pattern string) ([]Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	request, err := json.Marshal(map[string]any{"multi_last": []string{pattern}, "batch": maxAll})
	if err != nil {
		return nil, err
	}
	inbox := nc.NewRespInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer answers.Unsubscribe()
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
		return nil, err
	}
	var all []Stored
	for len(all) <= maxAll {
		msg, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask the engine for %s: %w", pattern, err)
		}
		if code := msg.Header.Get(status); code == "204" || code == "404" {
			return all, nil
		}
		of := msg.Header.Get(ofSubject)
		stored, err := FromStream(msg, of)
		if err != nil {
			return nil, err
		}
		all = append(all, stored)
	}
	return all, nil
}
