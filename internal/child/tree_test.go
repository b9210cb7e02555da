package child

import "testing"

func TestClan(t *testing.T) {
	var f childFamily
	f.living.Add(1)
	f.recordStart(20)
	if !f.alone(false) {
		t.Error("one child is not alone")
	}
	f.living.Add(1) // forked, but not yet known
	if f.alone(false) {
		t.Error("alone while another is being started")
	}
	f.recordStart(10)
	f.recordStart(15)
	if first := f.first.Load(); first != 10 {
		t.Errorf("first start %d, want 10", first)
	}
	f.living.Add(-1)
	if f.alone(true) {
		t.Error("one that has ended is alone though another lives")
	}
	if f.living.Add(-1); !f.alone(true) {
		t.Error("the last is not said to be it")
	}
}
