// Package proto_test shows each change of the API in review.
package proto_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
	_ "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var update = flag.Bool("update", false, "write testdata/descriptor.golden.json anew")

const golden = "testdata/descriptor.golden.json"

// TestDescriptor fails when the API differs from the golden file. A field that
// was published is not renumbered, retyped or taken out; what is added shows in
// the diff once the file was rewritten with
//
//	go test ./proto -update
func TestDescriptor(t *testing.T) {
	got := descriptor(t)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the API changed (-want +got); if that is meant, go test ./proto -update\n%s", diff)
	}
}

// descriptor writes all files of the API as JSON that is the same for every
// build. Protojson varies its blanks on purpose, so its output is made canonical.
func descriptor(t *testing.T) []byte {
	t.Helper()
	files := map[string]protoreflect.FileDescriptor{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(f.Package()), "thoughtgate.") {
			files[f.Path()] = f
		}
		return true
	})
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, path := range slices.Sorted(maps.Keys(files)) {
		message := protodesc.ToFileDescriptorProto(files[path])
		message.SourceCodeInfo = nil
		text := jsontext.Value(mustJSON(t, message))
		if err := text.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(text)
	}
	out.WriteString("\n]\n")
	return out.Bytes()
}

func mustJSON(t *testing.T, message *descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	text, err := protojson.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
