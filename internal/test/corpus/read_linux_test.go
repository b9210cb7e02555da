package corpus

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// example is a case of a corpus.
type example struct {
	corpus, class string
	text          string // by which it is in one half or the other
	lines         []rehearse.Line
	each          bool // each call counts for itself, and not the strictest for all
	dangerous     bool
	leftOut       string // why it is not counted; empty if it is
}

// readers read the corpora, by the folder that each is in.
var readers = map[string]func(dir string) ([]example, error){
	"dcg": readDCG, "redcode": readRedCode, "nl2bash": readNL2Bash, "egress": readEgress, "tau2": readTau2, "livemcp": readLiveMCP,
}

// readAll reads the corpora that are there.
func readAll(dir string) ([]example, error) {
	var all []example
	for _, name := range sorted(readers) {
		folder := filepath.Join(dir, name)
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		cases, err := readers[name](folder)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", folder, err)
		}
		for i := range cases {
			cases[i].corpus = cmp.Or(cases[i].corpus, name)
		}
		all = append(all, cases...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has none of the folders %v", dir, sorted(readers))
	}
	return all, nil
}

// shellCase is a case of one command line of the agent's shell.
func shellCase(class, command string, dangerous bool) example {
	line := rehearse.Line{Server: agenthook.Server, Subject: agenthook.Shell, Arguments: object(map[string]string{"command": command, "cwd": project})}
	return example{class: class, text: command, lines: []rehearse.Line{line}, dangerous: dangerous}
}

// files returns the files below dir that end in ext.
func files(dir, ext string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ext) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// readDCG reads the corpus of destructive_command_guard. A class is a folder, or the file
// canonical.toml.
func readDCG(dir string) ([]example, error) {
	top := filepath.Join(dir, "tests/corpus")
	names, err := files(top, ".toml")
	var all []example
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var file struct {
			Case []struct {
				Command  string
				Expected string
				Decision string `toml:"expected_decision"`
			}
		}
		if err := toml.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return nil, err
		}
		class, _, _ := strings.Cut(strings.TrimSuffix(filepath.ToSlash(rel), ".toml"), "/")
		for _, c := range file.Case {
			one := shellCase(class, c.Command, c.Expected+c.Decision == "deny")
			if c.Command == "" {
				one.leftOut = "has no command, but the input of its own hook"
			}
			all = append(all, one)
		}
	}
	return all, err
}

// securityClasses are the classes of RedCode-Exec that count as about security: the scripts destroy,
// change or stop what is not theirs, carry something out, or save what is to be run later.
var securityClasses = map[int]string{
	1: "sends system files", 2: "saves a program from the network", 4: "copies system files", 6: "saves hidden code", 8: "deletes system files",
	9: "changes what runs at login", 18: "kills what is not its own",
}

// readingClasses print what every program of the machine may read, such as /etc/passwd. They are
// counted apart: the default asks about credentials, and lets all else be read. The remaining classes
// print words (3), or compute something in a way that their author should not have chosen.
var readingClasses = map[int]string{5: "lists folders", 7: "reads system files", 13: "reads system files by another path", 14: "evaluates a command"}

var redCodeName = regexp.MustCompile(`index(\d+)_`)

// readRedCode reads the classes of RedCode-Exec that are in Bash.
func readRedCode(dir string) ([]example, error) {
	names, err := files(filepath.Join(dir, "dataset/RedCode-Exec/bash2text_dataset_json"), ".json")
	var all []example
	for _, name := range names {
		match := redCodeName.FindStringSubmatch(name)
		if match == nil {
			return nil, fmt.Errorf("the file %s has no number", name)
		}
		var cases []struct{ Code string }
		if err := readJSON(name, &cases); err != nil {
			return nil, err
		}
		class, _ := strconv.Atoi(match[1]) // digits
		for _, c := range cases {
			// The server that the scripts send to stands for one of another person.
			command := strings.NewReplacer("127.0.0.1", "192.0.2.1", "localhost", "192.0.2.1").Replace(c.Code)
			one := shellCase(fmt.Sprintf("%02d %s", class, securityClasses[class]+readingClasses[class]), command, true)
			one.text = c.Code
			switch {
			case readingClasses[class] != "":
				one.corpus = "redcode, reading"
			case securityClasses[class] == "":
				one.leftOut = "a class that is not about security"
			}
			all = append(all, one)
		}
	}
	return all, err
}

func readJSON(name string, to any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(withoutExamples(string(text))), to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// grave finds lines that are not harmless, by their words alone and whatever the gate says about
// them. They are taken out, and counted by reason.
var grave = []struct {
	reason string
	words  *regexp.Regexp
}{
	{"has a word that deletes, overwrites or stops", regexp.MustCompile(`(^|[^\w.-])(rm|rmdir|unlink|shred|srm|wipe|dd|mkfs[.\w]*|mkswap|fdisk|sfdisk|parted|truncate|kill|killall|pkill|skill|shutdown|reboot|halt|poweroff|init|telinit)($|[^\w.-])|-delete\b|\bhistory -[cd]\w*\b|> */dev/(fd|sd|hd)`)},
	{"changes what runs by itself", regexp.MustCompile(`\bcrontab($| *$| -($|[^l])| +[\w./$])|\bcrontab +-u +\S+ +-($|[^l])|/etc/cron|/var/spool/cron|/LaunchAgents\b|\bchsh\b|~/\.(bash|zsh)rc\b.*|\b(useradd|usermod|userdel|passwd|visudo|iptables|modprobe|insmod)\b`)},
	{"writes what belongs to the system", regexp.MustCompile(`\b(cp|mv|ln|install)\b.* "?/(usr|lib|etc|var/lib)/\S*$|\btee\b.*/(etc|sys|proc)/|\bfind /etc\b.*\b(mv|cp)\b|\bmv "?/(usr|lib|etc|bin|sbin)/|\bcp\b.* "?/lib/modules/|\b(chmod|chgrp|chown)\b.* "?/(usr|lib|etc|bin|sbin)/`)},
	{"changes the owners of files, which are lost then, or sets bits that give rights", regexp.MustCompile(`\b(chown|chgrp)\b.* -\w*R|\b(chown|chgrp) -\w*R|\bchmod\b.*([ug]\+\w*s| [2467]\d\d\d )`)},
	{"sends files of the machine to another", regexp.MustCompile(`\b(rsync|scp)\b.* ['"]?[\w.-]*@?[\w.-]+:|\bcurl\b.* -\w*T\b|\| *ssh\b|\bssh\b.*[^<]<[^<]`)},
	{"runs code that another machine sends", regexp.MustCompile(`\b(curl|wget)\b.*\| *(sudo +)?(ba|z|da)?sh\b|(<|\$)\((curl|wget)\b`)},
	{"opens or sends credentials", regexp.MustCompile(`\bcat ~/\.ssh\b|Authorization: *(Token|Bearer)`)},
}

// readNL2Bash reads the commands of nl2bash, which people have collected from questions and
// answers.
func readNL2Bash(dir string) ([]example, error) {
	text, err := os.ReadFile(filepath.Join(dir, "data/bash/all.cm"))
	var all []example
	for line := range strings.Lines(string(text)) {
		one := shellCase("collected", strings.TrimSuffix(line, "\n"), false)
		for _, g := range grave {
			if one.leftOut == "" && g.words.MatchString(one.text) {
				one.leftOut = g.reason
			}
		}
		all = append(all, one)
	}
	return all, err
}

// examples are keys that AWS documents, which are no secrets, and others of the same form.
var examples = [][2]string{{"AKIAIOSFODNN7EXAMPLE", "AKIAV3JQ7XKD2TWNRM5H"}, {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYq8Zt2WvHs4"}}

// withoutExamples replaces the keys of AWS's documentation by others, in each encoding that the
// cases have. So a case is about what it says: a key that leaves.
func withoutExamples(text string) string {
	each := func(s, before, between string) string {
		var out []string
		for _, b := range []byte(s) {
			out = append(out, fmt.Sprintf("%s%02x", before, b))
		}
		return strings.Join(out, between)
	}
	var pairs []string
	for _, e := range examples {
		for _, encode := range []func(string) string{
			func(s string) string { return s },
			func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
			func(s string) string { return each(s, "", "") }, func(s string) string { return each(s, "", "-") },
			func(s string) string { return each(s, "%", "") }, func(s string) string { return each(s, "%25", "") },
		} {
			pairs = append(pairs, encode(e[0]), encode(e[1]))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// notClaimed are capabilities, as docs/RUNNER.md has them, that the default does not claim.
var notClaimed = map[string]string{
	"domain_blocklist": "needs a list of hosts, which a person writes",
	"ssrf":             "not claimed: addresses of this machine and its network, which a developer's agent may reach",
	"ssrf_bypass":      "not claimed: addresses of this machine and its network, which a developer's agent may reach",
	"crypto_dlp":       "not claimed: numbers of accounts and phrases of wallets",
}

// A message of a case of agent-egress-bench.
type message struct {
	Method string
	Params json.RawMessage
	Result json.RawMessage
}

// egressCase is a case of agent-egress-bench; see docs/SPEC.md there.
type egressCase struct {
	ID       string
	Category string
	Input    string `json:"input_type"`
	Expected string `json:"expected_verdict"`
	Payload  struct {
		URL      string
		Messages []message `json:"jsonrpc_messages"`
	}
	Tags []string `json:"capability_tags"`
}

// notSeen are the inputs that do not pass a gate for what agents call.
var notSeen = map[string]string{
	"request_body": "the body of an HTTP request, which a proxy sees", "header": "the header of an HTTP request, which a proxy sees",
	"response_content": "the body of an HTTP answer, which a proxy sees", "websocket_frame": "a frame of a WebSocket, which a proxy sees",
	"a2a_message": "a message of A2A between agents", "a2a_agent_card": "a card of A2A",
}

// readEgress reads agent-egress-bench: calls of an MCP server and what it answers as they are, and a
// URL as one that the agent fetches. As its
// docs/RUNNER.md wants it, a verdict to block is met by any that withholds.
func readEgress(dir string) ([]example, error) {
	names, err := files(filepath.Join(dir, "cases"), ".json")
	var all []example
	for _, name := range names {
		var c egressCase
		if err := readJSON(name, &c); err != nil {
			return nil, err
		}
		one := example{class: c.Category, text: c.ID, dangerous: c.Expected == "block", leftOut: notSeen[c.Input]}
		for _, tag := range c.Tags {
			one.leftOut = cmp.Or(one.leftOut, notClaimed[tag])
		}
		if c.Payload.URL != "" {
			one.lines = []rehearse.Line{{Server: agenthook.Server, Subject: agenthook.Fetch, Arguments: object(map[string]string{"url": c.Payload.URL})}}
		}
		for _, m := range c.Payload.Messages {
			one.lines = append(one.lines, m.line())
		}
		if one.leftOut != "" {
			one.lines = nil
		}
		all = append(all, one)
	}
	return all, err
}

// line returns what passes the gate for a message.
func (m *message) line() rehearse.Line {
	if m.Result != nil {
		var list struct{ Tools json.RawMessage }
		if json.Unmarshal(m.Result, &list) == nil && list.Tools != nil {
			return rehearse.Line{Method: "tools/list", Result: m.Result}
		}
		return rehearse.Line{Result: m.Result}
	}
	var call struct{ Name string }
	if err := json.Unmarshal(m.Params, &call); err != nil {
		return rehearse.Line{Method: m.Method, Params: m.Params}
	}
	definition := fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, call.Name)
	return rehearse.Line{Method: m.Method, Params: m.Params, Definition: definition}
}

// readTau2 reads the calls that the tasks of tau2-bench expect of the agent. A class is a domain,
// whose tools are those of one server.
func readTau2(dir string) ([]example, error) {
	names, err := files(filepath.Join(dir, "data/tau2/domains"), "/tasks.json")
	var all []example
	for _, name := range names {
		var tasks []struct {
			ID       string
			Criteria struct {
				Actions []struct {
					Requestor, Name string
					Arguments       json.RawMessage
				}
			} `json:"evaluation_criteria"`
		}
		if err := readJSON(name, &tasks); err != nil {
			return nil, err
		}
		domain := filepath.Base(filepath.Dir(name))
		for _, t := range tasks {
			one := example{class: domain, text: domain + "/" + t.ID, each: true}
			for _, a := range t.Criteria.Actions {
				if a.Requestor != "user" { // who has a telephone, say, that the agent can't reach
					one.lines = append(one.lines, rehearse.Line{Server: domain, Subject: a.Name, Arguments: a.Arguments})
				}
			}
			if one.lines == nil {
				one.leftOut = "expects no call of the agent"
			}
			all = append(all, one)
		}
	}
	return all, err
}

// liveDefinitions returns the definitions of LiveMCPBench's tools, by server and name.
func liveDefinitions(dir string) (map[[2]string]json.RawMessage, error) {
	var packages []struct {
		Tools map[string]struct{ Tools []json.RawMessage }
	}
	err := readJSON(filepath.Join(dir, "tools/LiveMCPTool/tools.json"), &packages)
	definitions := map[[2]string]json.RawMessage{}
	for _, p := range packages {
		for server, list := range p.Tools {
			for _, definition := range list.Tools {
				var tool struct{ Name string }
				if err := json.Unmarshal(definition, &tool); err != nil {
					return nil, fmt.Errorf("read a tool of %s: %w", server, err)
				}
				definitions[[2]string{server, tool.Name}] = definition
			}
		}
	}
	return definitions, err
}

// readLiveMCP reads LiveMCPBench. What its people wrote for a task names tools, and has no arguments.
// But there are the runs of a model that they judged: of those that succeeded, the calls and the
// answers.
func readLiveMCP(dir string) ([]example, error) {
	definitions, err := liveDefinitions(dir)
	if err != nil {
		return nil, err
	}
	names, err := files(filepath.Join(dir, "baseline/annotation"), ".json")
	var all []example
	for _, name := range names {
		var runs []struct {
			ID       string `json:"task_id"`
			Category string
			Success  string `json:"task_success"`
			Messages []struct {
				Content json.RawMessage
				Answers string `json:"tool_call_id"`
				Calls   []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		if err := readJSON(name, &runs); err != nil {
			return nil, err
		}
		for _, r := range runs {
			one := example{class: r.Category, text: r.ID, each: true}
			if r.Success != "success" {
				one.leftOut = "a run that did not succeed"
			}
			calls := map[string]rehearse.Line{}
			for _, m := range r.Messages {
				if call, ok := calls[m.Answers]; ok {
					call.Result = fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, m.Content)
					one.lines = append(one.lines, call)
				}
				for _, c := range m.Calls {
					if c.Function.Name != "execute-tool" { // it looks for tools
						continue
					}
					var call struct {
						Server string          `json:"server_name"`
						Tool   string          `json:"tool_name"`
						Params json.RawMessage `json:"params"`
					}
					// The tasks' files are in the home folder of root, where nothing else is: it is their work tree.
					text := strings.ReplaceAll(c.Function.Arguments, "/root", project)
					if err := json.Unmarshal([]byte(text), &call); err != nil {
						return nil, fmt.Errorf("read a call of %s: %w", r.ID, err)
					}
					calls[c.ID] = rehearse.Line{
						Server: call.Server, Subject: call.Tool, Arguments: call.Params, Definition: definitions[[2]string{call.Server, call.Tool}],
					}
					one.lines = append(one.lines, calls[c.ID])
				}
			}
			all = append(all, one)
		}
	}
	return all, err
}
