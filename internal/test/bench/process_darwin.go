package main

import "time"

// macOS has no /proc, so the figures from there are missing.

func cpu(int) time.Duration { return 0 }

type memory struct{ resident, share, peak float64 }

func memoryOf(int) memory { return memory{} }

func forgetPeak(int) {}

func busy() (worked, stolen time.Duration) { return 0, 0 }
