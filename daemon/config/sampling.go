package config

import "regexp"

// Sampling says who answers when a server asks for an answer of the agent's model.
type Sampling struct {
	Provider      string       `yaml:"provider" doc:"EXTENSION/PROVIDER or EXTENSION/PROVIDER:MODEL of an installed extension; left out, agents answer"`
	When          SamplingWhen `yaml:"when" doc:"when it answers in the agent's place: unable | always | never (then only where a rule says so)"`
	MaxIterations int          `yaml:"max_iterations" min:"1" max:"64" doc:"how often the model is asked for one answer, which is once more for each time that it uses tools"`
	MaxTokens     int          `yaml:"max_tokens" min:"1" max:"1000000" doc:"of one answer, at most, whatever the server asks for"`
	Tools         []Glob       `yaml:"tools" one:"true" doc:"globs over EXTENSION/TOOL: tools of extensions that the model may use; each use is judged as any call; left out, none"`
}

var providerName = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,63})/([^/:\s]{1,128})(?::(\S{1,256}))?$`)

// Named returns the parts of Provider, all empty when there is none. model is
// empty where the provider's own choice holds.
func (s *Sampling) Named() (extension, provider, model string) {
	if m := providerName.FindStringSubmatch(s.Provider); m != nil {
		return m[1], m[2], m[3]
	}
	return "", "", ""
}

func (c *checker) sampling() {
	s := &c.Sampling
	if s.Provider != "" && !providerName.MatchString(s.Provider) {
		c.wrong(&s.Provider, "V-SAM-001", "write it as notes/claude or notes/claude:small", "%q names no provider of an extension", s.Provider)
	}
	if s.Provider == "" && s.When == SamplingAlways {
		c.wrong(&s.When, "V-SAM-002", "write provider: with that of an extension", "a provider is always to answer, and there is none")
	}
}

// answerBy checks a rule that says who answers.
func (c *checker) answerBy(r *Rule) {
	switch {
	case r.AnswerBy == "":
	case r.Action == Deny:
		c.wrong(&r.AnswerBy, "V-SAM-003", "", "nobody answers what the rule denies")
	case r.AnswerBy == AnswerByProvider && c.Sampling.Provider == "":
		c.wrong(&r.AnswerBy, "V-SAM-002", "write sampling: {provider: ...}", "a provider is to answer, and there is none")
	}
}
