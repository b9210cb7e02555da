package backend

// dice is a number from which choices are taken.
type dice struct{ n uint64 }

// shake makes all choices of op equally likely: most numbers that rapid draws are small.
func shake(op uint64) *dice {
	op += 0x9e3779b97f4a7c15
	op = (op ^ op>>30) * 0xbf58476d1ce4e5b9
	op = (op ^ op>>27) * 0x94d049bb133111eb
	return &dice{op ^ op>>31}
}

func (d *dice) roll(sides int) int {
	face := d.n % uint64(sides)
	d.n /= uint64(sides)
	return int(face)
}
