package browse

const opener = "xdg-open"
