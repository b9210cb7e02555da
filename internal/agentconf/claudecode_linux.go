package agentconf

// claudeSystemFolder is where an administrator places settings for Claude Code.
const claudeSystemFolder = "/etc/claude-code"
