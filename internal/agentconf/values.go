package agentconf

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Values are the texts in one object of a configuration file.
type Values struct {
	Agent string
	File  string
	Path  []string // of the object in the file
	JSON  []byte   // an object with its members that are texts or lists of texts
}

// EachValues yields the texts in the files that agents read in env, one object after another and
// each file once. It leaves out a file that can't be read, which [Look] reports. It changes nothing.
func EachValues(env Env) iter.Seq[Values] {
	return func(yield func(Values) bool) {
		seen := map[string]bool{}
		for _, k := range kinds {
			paths := k.Agent.Files(env)
			if tools := lookAtHooks(k.Agent, env); tools != nil {
				paths = append(paths, tools.Path)
			}
			for _, path := range paths {
				s, err := load(path, syntaxOf(path))
				if err != nil || s == nil || seen[s.file.path] {
					continue
				}
				seen[s.file.path] = true
				if !eachObject(s.doc.Root(), nil, func(path []string, texts []byte) bool { return yield(Values{k.Agent.Name(), s.Path, path, texts}) }) {
					return
				}
			}
		}
	}
}

// eachObject calls yield for each object at and below n that has texts, until it reports false.
func eachObject(n edit.Node, path []string, yield func(path []string, texts []byte) bool) bool {
	texts := map[string]any{}
	for name, value := range n.Members() {
		switch {
		case value.Kind() == edit.String:
			texts[name.Text()] = value.Text()
		case value.Kind() == edit.Array && !slices.ContainsFunc(value.Items(), func(item edit.Node) bool { return item.Kind() != edit.String }):
			list := []string{}
			for _, item := range value.Items() {
				list = append(list, item.Text())
			}
			texts[name.Text()] = list
		}
	}
	if raw, err := json.Marshal(texts); err == nil && len(texts) > 0 && !yield(path, raw) {
		return false
	}
	for step, child := range n.Children() {
		if (child.Kind() == edit.Object || child.Kind() == edit.Array) && !eachObject(child, append(slices.Clip(path), step), yield) {
			return false
		}
	}
	return true
}
