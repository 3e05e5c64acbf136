package sse

import (
	"strconv"
	"time"

	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// streamMetrics are what every exchange is counted in, by name. They carry the tags of the iteration and of params.tags, the system tags name,
// method and status, and ended. There is no url tag: addresses with ids in them would make a time series each.
type streamMetrics map[string]*metrics.Metric

func registerMetrics(registry *metrics.Registry) (streamMetrics, error) {
	m := streamMetrics{}
	var err error
	add := func(name string, kind metrics.MetricType, value metrics.ValueType) {
		if err == nil {
			m[name], err = registry.NewMetric(name, kind, value)
		}
	}
	add("sse_time_to_first_event", metrics.Trend, metrics.Time) // since it was handed to the transport
	add("sse_event_gap", metrics.Trend, metrics.Time)
	add("sse_stream_duration", metrics.Trend, metrics.Time) // of streams that opened, to the terminal event or to the end when there was none
	add("sse_streams", metrics.Counter, metrics.Default)    // exchanges
	add("sse_event", metrics.Counter, metrics.Default)
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
	add := func(name string, at time.Duration, value float64) {
		samples = append(samples, metrics.Sample{
			TimeSeries: metrics.TimeSeries{Metric: m[name], Tags: tags.Tags},
			Time:       x.startedAt.Add(at),
			Metadata:   tags.Metadata,
			Value:      value,
		})
	}
	if x.events > 0 {
		add("sse_time_to_first_event", x.first, metrics.D(x.first))
		add("sse_event", x.done, float64(x.events))
	}
	at := x.first
	for _, gap := range x.gaps {
		if x.request.GapSamples {
			at += gap
			add("sse_event_gap", at, metrics.D(gap))
		}
	}
	if x.opened {
		add("sse_stream_duration", x.done, metrics.D(x.done))
	}
	add("sse_streams", x.done, 1)
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
