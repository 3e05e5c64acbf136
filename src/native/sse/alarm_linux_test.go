package sse

import "testing"

func TestATimerThatFailsIsReported(t *testing.T) {
	var a alarm
	come, err := a.at(inMs(3_600_000))
	if err != nil {
		t.Fatal(err)
	}
	_ = a.timer.Close()
	comes(t, come, nil, "who waits was left alone")
	if a.failed() == nil {
		t.Error("expected to be told why")
	}
	if _, err := a.at(inMs(5)); err == nil {
		t.Error("expected an error, since no moment comes any more")
	}
}
