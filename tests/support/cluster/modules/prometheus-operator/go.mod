// The Prometheus operator, pinned: its CustomResourceDefinitions judge what the chart makes for it.
module inferometer.dev/tests/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.94.1
