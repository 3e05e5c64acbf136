package sse

import (
	"testing"
	"time"
)

func TestATimerThatFailsIsReported(t *testing.T) {
	var a alarm
	waiting := a.at(inMs(3_600_000))
	_ = a.timer.Close()
	for name, come := range map[string]<-chan error{"who waited": waiting, "who came after it": a.at(inMs(5))} {
		select {
		case err := <-come:
			if err == nil {
				t.Errorf("%s: expected to be told why no moment comes any more", name)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s was left alone", name)
		}
	}
}
