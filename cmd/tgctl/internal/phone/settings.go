package phone

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/secret"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// settings is the file that the setup writes. All of it is secret: who knows the topics reads and answers
// questions, and who has the key makes the codes of any button.
type settings struct {
	V       int    `json:"v"`
	Server  string `json:"server"`  // address without a slash at its end
	Topic   string `json:"topic"`   // where questions are published
	Answers string `json:"answers"` // where buttons publish
	Token   string `json:"token,omitempty"`
	Key     []byte `json:"key"`
	Values  bool   `json:"values"` // arguments of calls are sent, too
}

// settingsVersion is the version of the file's format.
const settingsVersion = 1

// keyBytes is the length of the key, in bytes.
const keyBytes = 32

// settingsFile returns where the settings are.
func settingsFile(p sock.Paths) string { return filepath.Join(p.Config, "phone.json") }

// newSettings returns settings with new topics and a new key. A topic has 130 random bits.
func newSettings(server, token string, values bool) (*settings, error) {
	s := &settings{V: settingsVersion, Server: server, Token: token, Values: values, Key: make([]byte, keyBytes)}
	s.Topic, s.Answers = topicPrefix+strings.ToLower(rand.Text()), answersPrefix+strings.ToLower(rand.Text())
	_, err := rand.Read(s.Key)
	return s, err
}

// Topics of one kind share a prefix, so that a server can be told who may use them.
const (
	topicPrefix   = "tg-questions-"
	answersPrefix = "tg-answers-"
)

// topicForm is what a topic of ntfy looks like.
var topicForm = regexp.MustCompile(`^[-_A-Za-z0-9]{16,64}$`)

// errNotSetUp reports that there are no settings.
var errNotSetUp = errors.New("no phone is set up")

// loadSettings reads the settings.
func loadSettings(path string) (*settings, error) {
	text, err := secret.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ui.HintError{Err: errNotSetUp, Hint: "Set one up at your terminal: tgctl notify --via ntfy --setup"}
	}
	if _, wide := errors.AsType[*secret.ModeError](err); wide {
		return nil, &ui.HintError{Err: err, Hint: "Others may know the topics, so set it up again: tgctl notify --via ntfy --setup"}
	}
	s := &settings{}
	if err == nil {
		err = json.Unmarshal([]byte(text), s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, &ui.HintError{Err: fmt.Errorf("read the settings of the phone: %s: %w", path, err), Hint: "Set it up again: tgctl notify --via ntfy --setup"}
	}
	return s, nil
}

func (s *settings) check() error {
	_, err := serverAddress(s.Server)
	switch {
	case s.V != settingsVersion:
		return fmt.Errorf("version %d is not supported, only %d", s.V, settingsVersion)
	case err != nil:
		return err
	case !topicForm.MatchString(s.Topic) || !topicForm.MatchString(s.Answers) || s.Topic == s.Answers:
		return errors.New("a topic is invalid")
	case len(s.Key) != keyBytes:
		return errors.New("the key is invalid")
	}
	return checkToken(s.Token)
}

// checkToken checks that a token can stand in a header. Its errors contain nothing of it.
func checkToken(token string) error {
	if len(token) > 256 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token is invalid: it must be one word of visible ASCII characters")
	}
	return nil
}

// save writes the settings for this user alone.
func (s *settings) save(path string) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = secret.WriteFile(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the settings of the phone: %w", err)
	}
	return nil
}

// serverAddress checks the address of a server and returns it without a slash at its end. It must be one of
// https, or one of http on a loopback or private address that is named as such, so that no name service
// decides where codes travel unencrypted.
func serverAddress(given string) (string, error) {
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", errors.New("the server's address must be of the form https://ntfy.example.com")
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	near := u.Hostname() == "localhost" || ip.IsLoopback() || ip.IsPrivate()
	if u.Scheme != "https" && !(u.Scheme == "http" && near) {
		return "", errors.New("the server's address must begin with https://; http:// is possible only with a loopback or private IP address")
	}
	return u.Scheme + "://" + u.Host, nil
}

// link returns the address that ntfy's app for Android subscribes to when it is opened.
func (s *settings) link() string {
	host, plain := strings.CutPrefix(s.Server, "http://")
	if !plain {
		return "ntfy://" + strings.TrimPrefix(host, "https://") + "/" + s.Topic
	}
	return "ntfy://" + host + "/" + s.Topic + "?secure=false"
}

// code returns the code of a button of one question: nobody can make it without the key, and it fits no
// other button, no other question, and no question of this id that is about something else.
func (s *settings) code(verb, id string, subject []byte) string {
	return s.sum("code", verb, id, hex.EncodeToString(subject))
}

// sequence returns under which id the server replaces what it shows of a question.
func (s *settings) sequence(id string, subject []byte) string {
	return s.sum("sequence", id, hex.EncodeToString(subject))
}

// codeBytes is the length of a code, in bytes.
const codeBytes = 16

func (s *settings) sum(words ...string) string {
	mac := hmac.New(sha256.New, s.Key)
	mac.Write([]byte(strings.Join(words, "\n"))) // no word has a line break: an id is checked
	return hex.EncodeToString(mac.Sum(nil)[:codeBytes])
}
