package child

func everyProcess() []proc { return allProcesses() }
