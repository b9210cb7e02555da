package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestExportLines(t *testing.T) {
	f, c := consoleWithRecords(t)
	var lines, withValues strings.Builder
	for _, r := range f.Records {
		fmt.Fprintf(&lines, "%s\n", r.GetLine())
		fmt.Fprintf(&withValues, "%s\n", r.GetLine())
		if v := r.GetValues(); len(v) > 0 {
			fmt.Fprintf(&withValues, "%s\n", v)
		}
	}
	if code := c.Run(t, "audit", "export", "--format", "jsonl"); code != 0 || c.Out.String() != lines.String() {
		t.Errorf("exit %d\n%s", code, c.Out.String())
	}
	if code := c.Run(t, "audit", "export", "--format", "jsonl", "--values"); code != 0 || c.Out.String() != withValues.String() {
		t.Errorf("with values: exit %d\n%s", code, c.Out.String())
	}
	path := filepath.Join(t.TempDir(), "out.jsonl")
	if code := c.Run(t, "audit", "export", "--format", "jsonl", "-o", path); code != 0 {
		t.Errorf("to a file: exit %d: %s", code, c.Err.String())
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != lines.String() {
		t.Errorf("%v\n%s", err, got)
	}
	if code := c.Run(t, "audit", "export", "--format", "jsonl", "-o", path); code == 0 {
		t.Error("a file that is there was written over")
	}
	for _, args := range [][]string{{"--format", "xml"}, {}, {"--format", "ocsf", "--values"}} {
		if code := c.Run(t, append([]string{"audit", "export"}, args...)...); code != 2 {
			t.Errorf("%v: exit %d, want 2", args, code)
		}
	}
}

// shapes are the objects of the schema that events use, with their members and types. A
// name with ! is required.
var shapes = map[string]map[string]string{
	"event": {
		"activity_id!": "int", "activity_name": "text", "category_uid!": "int", "category_name": "text", "class_uid!": "int", "class_name": "text",
		"type_uid!": "int", "time!": "int", "severity_id!": "int", "status_id": "int", "status": "text", "action_id": "int", "disposition_id": "int",
		"duration": "int", "message": "text", "metadata!": "metadata", "actor!": "actor", "api!": "api", "src_endpoint!": "endpoint",
		"dst_endpoint": "endpoint", "resources": "[]resource", "policy": "policy", "raw_data": "text", "unmapped": "any",
	},
	"metadata": {"version!": "text", "product!": "product", "profiles": "[]text", "log_name": "text", "log_version": "text", "sequence": "int", "uid": "text", "correlation_uid": "text"},
	"product":  {"name": "text", "vendor_name": "text", "version": "text"},
	"actor":    {"app_name": "text", "session": "uid", "invoked_by": "text"},
	"uid":      {"uid!": "text"},
	"api":      {"operation!": "text", "group": "named", "service": "named", "request": "uid", "response": "response"},
	"named":    {"name": "text"},
	"response": {"error": "text", "message": "text"},
	"endpoint": {"svc_name": "text"},
	"resource": {"name": "text", "type": "text"},
	"policy":   {"name": "text", "version": "text", "is_applied": "bool"},
}

// enums are the allowed values of members with an enumeration, except 0 and 99.
var enums = map[string][]float64{
	"category_uid": {6}, "class_uid": {6003}, "activity_id": {1, 2, 3, 4}, "severity_id": {1, 2, 3, 4, 5, 6},
	"status_id": {1, 2}, "action_id": {1, 2, 3, 4}, "disposition_id": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27},
}

// fits checks a value against a type of the schema.
func fits(value any, kind string) error {
	if of, ok := strings.CutPrefix(kind, "[]"); ok {
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%v is no list", value)
		}
		for _, item := range list {
			if err := fits(item, of); err != nil {
				return err
			}
		}
		return nil
	}
	ok := false
	switch kind {
	case "any":
		ok = true
	case "text":
		_, ok = value.(string)
	case "bool":
		_, ok = value.(bool)
	case "int":
		n, isNumber := value.(float64)
		ok = isNumber && n == float64(int64(n))
	default:
		return fitsObject(value, kind)
	}
	if !ok {
		return fmt.Errorf("%v is no %s", value, kind)
	}
	return nil
}

func fitsObject(value any, kind string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", value)
	}
	shape := shapes[kind]
	for name := range shape {
		if name, required := strings.CutSuffix(name, "!"); required && object[name] == nil {
			return fmt.Errorf("%s lacks %s", kind, name)
		}
	}
	for name, member := range object {
		of, known := shape[name]
		if !known {
			of, known = shape[name+"!"]
		}
		if !known {
			return fmt.Errorf("%s has %s, which the schema does not know", kind, name)
		}
		if err := fits(member, of); err != nil {
			return fmt.Errorf("%s.%s: %w", kind, name, err)
		}
		if allowed := enums[name]; allowed != nil && member != 0.0 && member != 99.0 && !slices.Contains(allowed, member.(float64)) {
			return fmt.Errorf("%s.%s can't be %v", kind, name, member)
		}
	}
	return nil
}

// Every record becomes a valid event of the class API Activity that contains the record
// itself.
func TestExportEvents(t *testing.T) {
	f, c := consoleWithRecords(t)
	if code := c.Run(t, "audit", "export", "--format", "ocsf"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	lines := strings.Split(strings.TrimSpace(c.Out.String()), "\n")
	if len(lines) != len(f.Records) {
		t.Fatalf("%d events of %d records", len(lines), len(f.Records))
	}
	for i, line := range lines {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if err := fits(event, "event"); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		if event["type_uid"] != event["class_uid"].(float64)*100+event["activity_id"].(float64) {
			t.Errorf("type_uid: %s", line)
		}
		if event["raw_data"] != string(f.Records[i].GetLine()) {
			t.Errorf("raw_data is not the record: %s", line)
		}
	}
}
