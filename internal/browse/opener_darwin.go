package browse

const opener = "/usr/bin/open"
