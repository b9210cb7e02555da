package child

func everyProcess() []proc { return processTable() }
