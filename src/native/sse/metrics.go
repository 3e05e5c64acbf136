package sse

import (
	"errors"
	"strconv"
	"time"

	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// streamMetrics are what every exchange is counted in. They carry the tags of the iteration and of params.tags, the system tags name,
// method and status, and ended. There is no url tag: addresses with ids in them would make a time series each.
type streamMetrics struct {
	firstEvent *metrics.Metric // from handing it to the transport to the first event
	eventGap   *metrics.Metric // between two events
	duration   *metrics.Metric // from handing it to the transport to the terminal event, or to the end when there was none; only of streams that opened
	streams    *metrics.Metric // exchanges
	events     *metrics.Metric
}

func registerMetrics(registry *metrics.Registry) (m streamMetrics, err error) {
	add := func(name string, kind metrics.MetricType, value metrics.ValueType) *metrics.Metric {
		metric, newErr := registry.NewMetric(name, kind, value)
		err = errors.Join(err, newErr)
		return metric
	}
	m.firstEvent = add("sse_time_to_first_event", metrics.Trend, metrics.Time)
	m.eventGap = add("sse_event_gap", metrics.Trend, metrics.Time)
	m.duration = add("sse_stream_duration", metrics.Trend, metrics.Time)
	m.streams = add("sse_streams", metrics.Counter, metrics.Default)
	m.events = add("sse_event", metrics.Counter, metrics.Default)
	return m, err
}

// push sends all samples of an exchange at once. It does not look whether the iteration was interrupted, as k6's own modules do: a stream
// cut at the end of a test is one that was made, and k6 takes samples until the iteration function has returned.
func (m streamMetrics) push(state *lib.State, x *exchange) {
	if x.startedAt.IsZero() || state.Samples == nil {
		return
	}
	tags := tagsOf(state, x)
	samples := make(metrics.Samples, 0, len(x.gaps)+4)
	add := func(metric *metrics.Metric, at time.Duration, value float64) {
		samples = append(samples, metrics.Sample{
			TimeSeries: metrics.TimeSeries{Metric: metric, Tags: tags.Tags},
			Time:       x.startedAt.Add(at),
			Metadata:   tags.Metadata,
			Value:      value,
		})
	}
	if x.events > 0 {
		add(m.firstEvent, x.first, metrics.D(x.first))
		add(m.events, x.done, float64(x.events))
	}
	at := x.first
	for _, gap := range x.gaps {
		if x.request.GapSamples {
			at += gap
			add(m.eventGap, at, metrics.D(gap))
		}
	}
	if x.opened {
		add(m.duration, x.done, metrics.D(x.done))
	}
	add(m.streams, x.done, 1)
	state.Samples <- samples
}

func tagsOf(state *lib.State, x *exchange) metrics.TagsAndMeta {
	tags, enabled := x.request.tags.Clone(), state.Options.SystemTags
	if _, named := tags.Tags.Get(metrics.TagName.String()); !named {
		tags.SetSystemTagOrMetaIfEnabled(enabled, metrics.TagName, x.request.name())
	}
	tags.SetSystemTagOrMetaIfEnabled(enabled, metrics.TagMethod, x.request.Method)
	tags.SetSystemTagOrMetaIfEnabled(enabled, metrics.TagStatus, strconv.Itoa(x.status))
	tags.SetTag("ended", string(x.end))
	return tags
}
