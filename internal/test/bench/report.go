package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// report is the result of a run.
type report struct {
	When    time.Time `json:"when"`
	Command string    `json:"command"`
	Machine string    `json:"machine"`
	Build   string    `json:"build"`
	Base    string    `json:"base,omitempty"` // build to compare with
	Peers   []string  `json:"peers,omitempty"`
	Turns   int       `json:"turns"`
	Took    float64   `json:"took_s"`
	Quiet   quiet     `json:"quiet"`
	Rows    []row     `json:"rows"`

	live io.Writer // shows each figure when it is measured; nil for none
	err  error     // an unknown figure, or one that was measured twice
}

// row is one figure for each way; a way to which it does not apply has none. Added is what our
// gate adds to direct, turn by turn. The theme defines Ratio.
type row struct {
	Name   string  `json:"name"`
	Theme  string  `json:"theme"`
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Direct *spread `json:"direct,omitempty"`
	Floor  *spread `json:"floor,omitempty"`
	Ours   *spread `json:"ours,omitempty"`
	Added  *spread `json:"added,omitempty"`
	Ratio  *spread `json:"ratio,omitempty"`
	Others []other `json:"others,omitempty"`
	Share  float64 `json:"pss,omitempty"`
	Peak   float64 `json:"peak,omitempty"`
	Beyond float64 `json:"beyond,omitempty"` // what is added beyond a sync, if the target is about that
	Note   string  `json:"note,omitempty"`
	Reach  string  `json:"reach,omitempty"`
	Met    string  `json:"met,omitempty"` // yes, no or unknown, if there is a target
}

// other is the figure of the base or of a peer.
type other struct {
	Name   string  `json:"name"`
	Figure *spread `json:"figure,omitempty"`
	Added  *spread `json:"added,omitempty"`
	Share  float64 `json:"pss,omitempty"`
	Peak   float64 `json:"peak,omitempty"`
	Failed string  `json:"failed,omitempty"` // why it has no figure
}

// base returns the figure of the base, an empty one if there is none.
func (r row) base() other {
	for _, o := range r.Others {
		if o.Name == baseName {
			return o
		}
	}
	return other{}
}

// add adds a figure and shows it at once, since a run takes minutes.
func (r *report) add(name string, v row) {
	f, ok := find(name)
	if _, twice := r.row(name); !ok || twice {
		r.err = fmt.Errorf("%s: taken twice, or not in the table of figures", name)
		return
	}
	v.Name, v.Theme, v.What, v.Unit, v.Reach = name, f.theme, f.what, f.unit, f.reach
	if f.reached != nil {
		v.Met = f.reached(v)
	}
	r.Rows = append(r.Rows, v)
	if r.live == nil {
		return
	}
	fmt.Fprintf(r.live, "%-22s %9s %9s %9s", name, v.Direct, v.Floor, v.Ours)
	for _, o := range v.Others {
		fmt.Fprintf(r.live, "  %s %s", o.Name, o)
	}
	fmt.Fprintf(r.live, "  %-10s %s\n", v.Unit, v.Met)
}

func find(name string) (figure, bool) {
	for _, f := range figures {
		if f.name == name {
			return f, true
		}
	}
	return figure{}, false
}

func (r *report) row(name string) (row, bool) {
	for _, v := range r.Rows {
		if v.Name == name {
			return v, true
		}
	}
	return row{}, false
}

// complete returns an error if a run of all measurements has left out a figure.
func (r *report) complete() error {
	for _, f := range figures {
		if _, ok := r.row(f.name); !ok {
			return fmt.Errorf("nothing has measured %s", f.name)
		}
	}
	return nil
}

func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// String returns the median for display.
func (s *spread) String() string {
	if s == nil {
		return "-"
	}
	return number(s.Median)
}

// String returns the figure for display, with what it adds or its peak if known.
func (o other) String() string {
	switch {
	case o.Failed != "":
		return "failed"
	case o.Added != nil:
		sign := "+"
		if o.Added.Median < 0 {
			sign = "" // number writes a minus sign itself
		}
		return fmt.Sprintf("%s (%s%s)", o.Figure, sign, o.Added)
	case o.Peak != 0:
		return fmt.Sprintf("%s (peak %s)", o.Figure, number(o.Peak))
	}
	return o.Figure.String()
}

// number formats v with about three significant digits.
func number(v float64) string {
	switch abs := max(v, -v); {
	case abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	case abs >= 0.1 || abs == 0:
		return fmt.Sprintf("%.2f", v)
	case abs >= 0.01:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.4f", v)
}
