package rig

func sameFile(int, int) bool { return false }
