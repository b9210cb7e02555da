package trust

import (
	"crypto/sha256"
	"encoding/hex"
)

// effect is what an environment variable does to a program.
type effect struct {
	what string // continues a sentence that begins with the variable
	only bool   // checked only if the project sets it, since everybody has it
}

const (
	loads    = "makes programs load other code"
	starts   = "names a program to run"
	finds    = "decides where programs or code are found"
	fetches  = "decides where packages come from"
	commands = "is run as a command"
)

// loaders are the variables that change which code runs.
var loaders = map[string]effect{
	// Dynamic linkers.
	"LD_PRELOAD": {what: loads}, "LD_LIBRARY_PATH": {what: finds}, "LD_AUDIT": {what: loads},
	"DYLD_INSERT_LIBRARIES": {what: loads}, "DYLD_LIBRARY_PATH": {what: finds}, "DYLD_FRAMEWORK_PATH": {what: finds},
	"DYLD_FALLBACK_LIBRARY_PATH": {what: finds}, "DYLD_FALLBACK_FRAMEWORK_PATH": {what: finds},
	"GCONV_PATH": {what: loads}, "OPENSSL_CONF": {what: loads, only: true}, "OPENSSL_MODULES": {what: loads, only: true},

	// Languages.
	"NODE_OPTIONS": {what: loads}, "NODE_PATH": {what: finds}, "ELECTRON_RUN_AS_NODE": {what: loads, only: true},
	"BUN_OPTIONS": {what: loads}, "DENO_DIR": {what: finds, only: true},
	"PYTHONPATH": {what: finds}, "PYTHONSTARTUP": {what: loads}, "PYTHONHOME": {what: finds},
	"PYTHONUSERBASE": {what: finds}, "PYTHONINSPECT": {what: loads}, "PYTHONBREAKPOINT": {what: loads},
	"PYTHONEXECUTABLE": {what: starts}, "PYTHONWARNINGS": {what: loads},
	"PERL5OPT": {what: loads}, "PERL5LIB": {what: finds}, "PERLLIB": {what: finds}, "PERL5DB": {what: loads},
	"RUBYOPT": {what: loads}, "RUBYLIB": {what: finds}, "GEM_PATH": {what: finds, only: true}, "GEM_HOME": {what: finds, only: true},
	"BUNDLE_GEMFILE": {what: fetches}, "PHPRC": {what: loads}, "PHP_INI_SCAN_DIR": {what: loads},
	"JAVA_TOOL_OPTIONS": {what: loads}, "_JAVA_OPTIONS": {what: loads}, "JDK_JAVA_OPTIONS": {what: loads},
	"CLASSPATH": {what: finds}, "DOTNET_STARTUP_HOOKS": {what: loads}, "CORECLR_PROFILER_PATH": {what: loads},
	"LUA_INIT": {what: loads}, "LUA_PATH": {what: finds}, "LUA_CPATH": {what: finds}, "JULIA_LOAD_PATH": {what: finds},
	"R_PROFILE": {what: loads}, "ERL_FLAGS": {what: loads}, "ERL_AFLAGS": {what: loads}, "GUILE_LOAD_PATH": {what: finds},

	// Shells, and programs that start others.
	"BASH_ENV": {what: loads}, "ENV": {what: loads, only: true}, "ZDOTDIR": {what: loads, only: true}, "PROMPT_COMMAND": {what: commands, only: true},
	"SHELLOPTS": {what: loads, only: true}, "PS4": {what: commands, only: true},
	"SHELL": {what: starts, only: true}, "EDITOR": {what: starts, only: true}, "VISUAL": {what: starts, only: true},
	"PAGER": {what: starts, only: true}, "BROWSER": {what: starts, only: true}, "LESSOPEN": {what: commands, only: true},
	"GIT_SSH": {what: starts}, "GIT_SSH_COMMAND": {what: commands}, "GIT_EXTERNAL_DIFF": {what: starts}, "GIT_ASKPASS": {what: starts, only: true},
	"GIT_PAGER": {what: starts, only: true}, "GIT_EDITOR": {what: starts, only: true}, "GIT_EXEC_PATH": {what: finds},
	"GIT_CONFIG_GLOBAL": {what: commands, only: true}, "GIT_CONFIG_COUNT": {what: commands, only: true}, "GIT_PROXY_COMMAND": {what: commands},
	"SSH_ASKPASS": {what: starts, only: true}, "SUDO_ASKPASS": {what: starts, only: true},

	// Where programs and packages are looked up.
	"PATH": {what: finds, only: true}, "HOME": {what: finds, only: true}, "XDG_CONFIG_HOME": {what: finds, only: true},
	"npm_config_registry": {what: fetches, only: true}, "NPM_CONFIG_REGISTRY": {what: fetches, only: true},
	"npm_config_userconfig": {what: fetches, only: true}, "NPM_CONFIG_USERCONFIG": {what: fetches, only: true},
	"npm_config_prefix": {what: finds, only: true}, "NPM_CONFIG_PREFIX": {what: finds, only: true},
	"npm_config_script_shell": {what: starts, only: true}, "NPM_CONFIG_SCRIPT_SHELL": {what: starts, only: true},
	"npm_config_node_options": {what: loads, only: true}, "NPM_CONFIG_NODE_OPTIONS": {what: loads, only: true},
	"PIP_INDEX_URL": {what: fetches, only: true}, "PIP_EXTRA_INDEX_URL": {what: fetches, only: true}, "PIP_CONFIG_FILE": {what: fetches, only: true},
	"UV_INDEX_URL": {what: fetches, only: true}, "UV_DEFAULT_INDEX": {what: fetches, only: true}, "UV_INDEX": {what: fetches, only: true},
	"UV_EXTRA_INDEX_URL": {what: fetches, only: true}, "UV_PYTHON": {what: starts, only: true}, "UV_CONFIG_FILE": {what: fetches, only: true},
	"UV_FIND_LINKS": {what: fetches, only: true}, "PIP_FIND_LINKS": {what: fetches, only: true},
	"GOPROXY": {what: fetches, only: true}, "GOFLAGS": {what: commands, only: true}, "CARGO_HOME": {what: finds, only: true},
	"DOCKER_HOST": {what: fetches, only: true}, "DOCKER_CONFIG": {what: fetches, only: true},
}

func sumOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}
